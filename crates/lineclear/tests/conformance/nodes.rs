//! Nodes: who is alive.

conformance! {
    async fn a_node_keeps_its_id_and_is_seen(db) {
        let first = db.node("a").await;
        db.age("node", "seen_at", 100).await;
        let other = db.node("b").await;
        assert_ne!(first, other);
        assert_eq!(db.store.nodes(10).await.unwrap()[0].id, other, "last seen first");
        assert_eq!(db.node("a").await, first);
        let nodes = db.store.nodes(10).await.unwrap();
        assert_eq!((nodes.len(), nodes[0].id), (2, first));
        assert!(nodes.iter().all(|node| node.seen_at <= node.now));
    }
}
