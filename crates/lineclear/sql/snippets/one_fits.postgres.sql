-- one_fits(word, patterns) · a word is one of a list, or begins like one that ends in *; an empty list asks nothing
(cardinality({patterns}) = 0
 or exists (select from unnest({patterns}) p where {word} = p or right(p, 1) = '*' and starts_with({word}, left(p, -1))))
