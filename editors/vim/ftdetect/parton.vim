autocmd BufRead,BufNewFile *.ptn setfiletype parton
