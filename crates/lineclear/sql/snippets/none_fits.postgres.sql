-- none_fits(word, patterns) · a word is none of a list, nor begins like one that ends in *
(cardinality({patterns}) = 0 or not {one_fits({word}, {patterns})})
