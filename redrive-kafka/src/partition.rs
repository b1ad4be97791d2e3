//! Which partition a copy goes to.

/// The hash that Kafka's own clients choose a partition by.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

/// The partition of a key, as Kafka's default partitioner has it. There has to be one.
pub(crate) fn of_key(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & 0x7fff_ffff).cast_signed() % partitions.max(1)
}

/// The same partition when it exists there, else by the key, else by the number alone.
pub(crate) fn same(partition: Option<i32>, key: Option<&[u8]>, partitions: i32) -> i32 {
    match (partition, key) {
        (Some(partition), _) if (0..partitions).contains(&partition) => partition,
        (_, Some(key)) => of_key(key, partitions),
        (Some(partition), None) => partition.rem_euclid(partitions.max(1)),
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hashes_as_kafka_does() {
        // The values of Kafka's own UtilsTest.
        let known: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (text, hash) in known {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_partition_exists(
            partition in any::<Option<i32>>(),
            key in any::<Option<Vec<u8>>>(),
            partitions in 1..5_000_i32,
        ) {
            let chosen = same(partition, key.as_deref(), partitions);
            prop_assert!((0..partitions).contains(&chosen));
            if let Some(partition) = partition && (0..partitions).contains(&partition) {
                prop_assert_eq!(chosen, partition);
            }
        }
    }
}
