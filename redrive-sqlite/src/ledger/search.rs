//! Finding entries: a filter, an index that serves it, and pages that stay right while entries come and go.

use redrive_core::Timestamp;
use redrive_engine::port::{Filter, Found, Page, Refusal};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::{entry, state};
use crate::fault::Done;

/// Rows that a search for a text looks at before it hands out a page, full or not.
const LOOKED_AT: usize = 50_000;

/// A place in the results: everything up to it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) last_failed: i64,
    pub(crate) eid: i64,
}

impl Place {
    fn parse(text: &str) -> Done<Self> {
        let read = || {
            let (time, row) = text.split_once('.')?;
            Some(Self { last_failed: time.parse().ok()?, eid: row.parse().ok()? })
        };
        Ok(read().ok_or_else(|| Refusal::Invalid("the cursor is none of this ledger's".to_owned()))?)
    }

    fn print(self) -> String {
        format!("{}.{}", self.last_failed, self.eid)
    }
}

pub(crate) fn search(sql: &Connection, filter: &Filter, page: &Page) -> Done<Found> {
    let after = page.after.as_deref().map(Place::parse).transpose()?;
    let limit = page.limit.clamp(1, 1_000);
    let mut entries = Vec::new();
    let next = walk(sql, filter, after, limit, entry::COLUMNS, |row| {
        entries.push(entry::read(sql, row)?);
        Ok(())
    })?;
    Ok(Found { entries, next: next.map(Place::print) })
}

/// Rows of entries that fit, the same order as a search.
pub(crate) fn rows(
    sql: &Connection,
    filter: &Filter,
    after: Option<Place>,
    limit: usize,
) -> Done<(Vec<i64>, Option<Place>)> {
    let mut rows = Vec::new();
    let next = walk(sql, filter, after, limit, "eid, last_failed", |row| {
        rows.push(row.get(0)?);
        Ok(())
    })?;
    Ok((rows, next))
}

/// Hands at most `limit` rows on; says where to go on when there may be more. The columns begin with `eid, last_failed`.
pub(crate) fn walk(
    sql: &Connection,
    filter: &Filter,
    after: Option<Place>,
    limit: usize,
    columns: &str,
    mut each: impl FnMut(&Row<'_>) -> Done<()>,
) -> Done<Option<Place>> {
    let conditions = Conditions::of(filter, after);
    let text = filter.text.as_deref().map(str::to_lowercase);
    let (index, terms) = (conditions.index, conditions.terms());
    let statement = format!(
        "SELECT {columns}, error_message FROM entries INDEXED BY {index} WHERE {terms}
         ORDER BY last_failed DESC, eid DESC"
    );
    let mut statement = sql.prepare_cached(&statement)?;
    let last_column = statement.column_count() - 1;
    let mut rows = statement.query(params_from_iter(conditions.values))?;
    let (mut found, mut seen, mut place) = (0, 0, None);
    while let Some(row) = rows.next()? {
        if found >= limit || seen >= LOOKED_AT {
            return Ok(place);
        }
        seen += 1;
        place = Some(Place { last_failed: row.get(1)?, eid: row.get(0)? });
        if let Some(text) = &text {
            let error = row.get_ref(last_column)?.as_str().map_err(rusqlite::Error::from)?;
            if !error.to_lowercase().contains(text) {
                continue;
            }
        }
        each(row)?;
        found += 1;
    }
    Ok(None)
}

/// A filter as SQL.
struct Conditions {
    terms: Vec<String>,
    values: Vec<Value>,
    index: &'static str,
}

impl Conditions {
    fn of(filter: &Filter, after: Option<Place>) -> Self {
        let mut all = Self { terms: Vec::new(), values: Vec::new(), index: index(filter) };
        all.equal("flow", filter.flow.as_deref());
        all.equal("class", filter.class.map(redrive_core::Class::as_str));
        all.equal("reason", filter.reason.as_ref().map(redrive_core::Reason::as_str));
        all.equal("grp", filter.group.as_deref());
        all.equal("message_key", filter.key.as_deref());
        all.equal("type", filter.message_type.as_deref());
        all.equal("tenant", filter.tenant.as_deref());
        all.equal("entity", filter.entity.as_deref());
        all.equal("correlation", filter.correlation_id.as_deref());
        match &filter.state[..] {
            [] => {}
            [one] => all.term("state = ?", [state::number(*one).into()]),
            several => {
                let marks = vec!["?"; several.len()].join(",");
                let values = several.iter().map(|state| state::number(*state).into());
                all.term(&format!("state IN ({marks})"), values);
            }
        }
        let time = |at: Timestamp| Value::from(at.as_millis());
        all.term("last_failed >= ?", filter.since.map(time));
        all.term("last_failed < ?", filter.until.map(time));
        if let Some(place) = after {
            all.term("(last_failed, eid) < (?, ?)", [place.last_failed.into(), place.eid.into()]);
        }
        all
    }

    fn equal(&mut self, column: &str, value: Option<&str>) {
        self.term(&format!("{column} = ?"), value.map(|value| Value::from(value.to_owned())));
    }

    /// Adds a condition, unless it has no values.
    fn term(&mut self, term: &str, values: impl IntoIterator<Item = Value>) {
        let before = self.values.len();
        self.values.extend(values);
        if self.values.len() > before {
            self.terms.push(term.to_owned());
        }
    }

    fn terms(&self) -> String {
        if self.terms.is_empty() { "1".to_owned() } else { self.terms.join(" AND ") }
    }
}

/// The index that leaves the least to look at. The planner keeps no statistics on a file that changes so much, so the
/// order here is what it would learn: what names one thing, then what names a few, then what names a crowd.
fn index(filter: &Filter) -> &'static str {
    let one_state = filter.state.len() == 1;
    if filter.correlation_id.is_some() {
        "entries_correlation"
    } else if filter.entity.is_some() {
        "entries_entity"
    } else if filter.key.is_some() {
        "entries_key"
    } else if filter.group.is_some() {
        "entries_group"
    } else if filter.tenant.is_some() {
        "entries_tenant"
    } else if filter.flow.is_some() && one_state {
        "entries_flow_state"
    } else if filter.reason.is_some() {
        "entries_reason"
    } else if filter.message_type.is_some() {
        "entries_type"
    } else if filter.flow.is_some() {
        "entries_flow"
    } else if one_state {
        "entries_state"
    } else if filter.class.is_some() {
        "entries_class"
    } else {
        "entries_last"
    }
}
