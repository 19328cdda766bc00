-- dispatch_gate_soft · read the global gate, for soft limits
{global_gate}
