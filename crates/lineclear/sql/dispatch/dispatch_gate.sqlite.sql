-- dispatch_gate · is there a global limit, and what does it say?
{global_gate}
