-- micros(time) · a moment, or a length of time, in µs
(extract(epoch from {time}) * 1000000)::bigint
