-- raise_stats(stats) · what was counted again replaces what stands there, if it is more
set    claims = excluded.claims, run_ms = excluded.run_ms, run_ms_max = excluded.run_ms_max, wait_ms = excluded.wait_ms,
       wait_ms_max = excluded.wait_ms_max
where  excluded.claims > {stats}.claims
