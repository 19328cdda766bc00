-- step_of(at, seconds) · the beginning of the step of time that a moment is in
{at} / ({seconds} * 1000000) * ({seconds} * 1000000)
