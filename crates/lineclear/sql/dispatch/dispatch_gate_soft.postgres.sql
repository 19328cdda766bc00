-- dispatch_gate_soft · read the global gate without a lock, for soft limits
-- Zero rows: there is no global limit.
{global_gate}
