-- none_fits(word, patterns) · a word is none of a list, nor begins like one that ends in *
(json_array_length({patterns}) = 0 or not {one_fits({word}, {patterns})})
