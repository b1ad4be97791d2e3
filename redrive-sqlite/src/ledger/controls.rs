//! What people have ordered, for as long as it is in force.

use redrive_core::Timestamp;
use redrive_engine::fail;
use redrive_engine::port::{Actor, Control, ControlKind, LaneName, Order, Quarantine};
use rusqlite::{Connection, params};

use super::{audit, lanes};
use crate::fault::{Done, Fault};
use crate::tx::Tx;

/// The controls in force, those of one flow together, the oldest first.
pub(crate) fn list(sql: &Connection) -> Done<Vec<Control>> {
    let mut statement = sql.prepare_cached(
        "SELECT c.flow, c.kind, c.target, c.who, c.why, c.at, coalesce(l.count, 0)
         FROM controls c
         LEFT JOIN lanes l ON c.kind = 'quarantine' AND l.flow = c.flow AND l.lane = ?1 || c.target
         ORDER BY c.flow, c.id",
    )?;
    let mut rows = statement.query([LaneName::of_quarantine("").as_str()])?;
    let mut controls = Vec::new();
    while let Some(row) = rows.next()? {
        controls.push(Control {
            flow: row.get(0)?,
            kind: kind(&row.get::<_, String>(1)?)?,
            target: row.get(2)?,
            by: row.get(3)?,
            reason: row.get(4)?,
            at: Timestamp::from_millis(row.get(5)?),
            held: row.get(6)?,
        });
    }
    Ok(controls)
}

fn kind(name: &str) -> Done<ControlKind> {
    let known = ControlKind::ALL.into_iter().find(|kind| kind.as_str() == name);
    known.ok_or_else(|| Fault::broken(format!("a control is of a kind that is none: {name}")))
}

/// Carries an order out; answers with how many messages it let go.
pub(crate) fn order(tx: &mut Tx<'_>, flow: &str, order: &Order, actor: &Actor, now: Timestamp) -> Done<u64> {
    order.check(flow)?;
    let kind = order.control().as_str();
    let target = order.target();
    let changed = if order.begins() {
        tx.sql
            .prepare_cached(
                "INSERT INTO controls (flow, kind, target, who, why, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (flow, kind, target) DO NOTHING",
            )?
            .execute(params![flow, kind, target, actor.who, actor.why, now.as_millis()])?
    } else {
        tx.sql
            .prepare_cached("DELETE FROM controls WHERE flow = ?1 AND kind = ?2 AND target = ?3")?
            .execute(params![flow, kind, target])?
    };
    if changed == 0 {
        return Err(order.refusal(flow).into());
    }
    let released = match order {
        Order::Quarantine(_) if count(tx, flow)? > Quarantine::MOST => {
            return Err(Quarantine::limit(flow).into());
        }
        Order::Release(quarantine) => lanes::release_quarantine(tx, flow, &quarantine.lane())?,
        _ => 0,
    };
    audit::add(tx, actor, order.name(), &order.subject(flow), released, now)?;
    fail::point("sqlite.after_order");
    Ok(released)
}

fn count(tx: &Tx<'_>, flow: &str) -> Done<u64> {
    let mut statement =
        tx.sql.prepare_cached("SELECT count(*) FROM controls WHERE flow = ?1 AND kind = 'quarantine'")?;
    Ok(statement.query_row([flow], |row| row.get(0))?)
}
