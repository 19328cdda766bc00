-- plan_lead · may this node plan now?
-- The write lock that the transaction holds is the leader lock.
select 1 as leads
