-- step_of(at, seconds) · the beginning of the step of time that a moment is in
to_timestamp(floor(extract(epoch from {at}) / {seconds}) * {seconds})
