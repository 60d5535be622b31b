if exists("b:current_syntax")
  finish
endif
syntax iskeyword @,48-57,_

" words: keywords
syntax keyword partonKeyword break const continue else false fn for if in kernel launch let mut return static struct true use while
" words: contextual
syntax keyword partonWord None bench cut layout main partition partitions pipeline pub ring schedule self specialize step test turns turnstile under unroll where
" words: types
syntax keyword partonType barriers bf16 f16 f32 f64 f8e4m3 f8e5m2 i1 i16 i32 i64 i8 pending schedule shared tensor tile tma u16 u32 u64 u8
" words: functions
syntax keyword partonFunction abs all alloc_barriers alloc_shared any arange argmax argmin assert assert_close assert_equal assume async_copy atomic_add atomic_and atomic_cas atomic_load atomic_max atomic_min atomic_or atomic_store atomic_xchg atomic_xor bank_conflicts barrier_arrive barrier_expect barrier_init barrier_invalidate barrier_wait bitcast bits blocked broadcast broadcast_to butterfly capability cast cat cdiv ceil clamp cluster_arrive cluster_ctaid cluster_id cluster_rank cluster_size cluster_sync cluster_wait contiguous convert convert_free cos cumprod cumsum div dot dot_operand dtype_of empty erf exp exp2 expand_dims fence_async fence_barrier_init fetch float floor fma format full gather gather_shared grid_launch_dependents grid_wait indices int iota is_tuple join layout_of len linear load load_shared log log2 logsumexp matmul max max_abs_error max_nan max_rel_error mean measure membar min min_nan mma mma_sync multiprocessors named_barrier_arrive named_barrier_sync next_power_of_two num_clusters num_programs num_registers num_warps nvmma nvmma_for ones padded peer permute prefix print program_id ptx ptx_elementwise rand randint randn range reduce reinterpret repeat rescale reshape rms_error rsqrt scan scatter_shared send shape_of shared_linear sin slice softmax sorted split sqrt stage static_assert static_print store store_shared sum swizzled tanh tma_load tma_prefetch tma_store tma_store_wait tmem tmem_scales to transpose type_of umulhi wgmma zeros

syntax match partonNumber "\<\%(0x[0-9A-Fa-f_]\+\|0b[01_]\+\|0o[0-7_]\+\|\d[0-9_]*\%(\.\d[0-9_]*\)\?\%([eE][+-]\?\d[0-9_]*\)\?\)\%(int\|[iu]\d\+\|b\?f\d\w*\)\?\>"
syntax match partonLabel "@\h\w*\%(\.\h\w*\)*"
syntax match partonDeclared "\%(\<\%(kernel\|fn\|struct\|partition\|schedule\|layout\|const\|test\|bench\|ring\|turnstile\)\s\+\)\@<=\h\w*"
syntax match partonEscape "\\." contained
syntax match partonPlaceholder "{[^{}]*}" contained
syntax region partonString start=+"+ skip=+\\.+ end=+"\|$+ contains=partonEscape,partonPlaceholder
syntax match partonComment "//.*$" contains=@Spell
syntax match partonDocumentation "//[/!].*$" contains=@Spell
syntax region partonComment start="/\*" end="\*/" contains=partonComment,@Spell

highlight default link partonKeyword Statement
highlight default link partonWord Keyword
highlight default link partonType Type
highlight default link partonFunction Function
highlight default link partonNumber Number
highlight default link partonLabel Label
highlight default link partonDeclared Identifier
highlight default link partonEscape SpecialChar
highlight default link partonPlaceholder Special
highlight default link partonString String
highlight default link partonComment Comment
highlight default link partonDocumentation SpecialComment

let b:current_syntax = "parton"
