-- one_fits(word, patterns) · a word is one of a list, or begins like one that ends in *; an empty list asks nothing
(json_array_length({patterns}) = 0 or exists (select 1 from json_each({patterns}) p where {word} glob p.value))
