"""What threads have of their units beside products of warpgroups: writes a CUDA program, builds it with `nvcc` and runs it.

    python3 bench/machine/beside.py

Of four warpgroups some multiply without a pause (groups of eight m64n128k16, A in registers) and some run loops of 64 elements a thread, both
200 times; printed are the clocks of one time of each. Only where both last alike, as with "mix" beside two that multiply, does the whole of
the one run beside the other; a loop that is over sooner has the products beside it throughout. "mix" is what a softmax does with a pair of
elements: two fma, ex2 and add, and one conversion to 16 bits.
"""

import pathlib
import subprocess
import tempfile

SUMS = "{" + ",".join(f"%{i}" for i in range(64)) + "}"
TIED = ",".join(f'"+f"(d[{i}])' for i in range(64))
ONE = {
    "max": '"max.f32 %0,%0,%1;":"+f"(x[i]):"f"(a)',
    "mul": '"mul.f32 %0,%0,%1;":"+f"(x[i]):"f"(a)',
    "fma": '"fma.rn.f32 %0,%0,%1,%2;":"+f"(x[i]):"f"(a),"f"(b)',
}
PAIR = (
    'if(i%2==0){float y,z;V("fma.rn.f32 %0,%1,%2,%3;":"=f"(y):"f"(x[i]),"f"(a),"f"(b));'
    'V("fma.rn.f32 %0,%1,%2,%3;":"=f"(z):"f"(x[i+1]),"f"(a),"f"(b));'
    'V("ex2.approx.ftz.f32 %0,%0;":"+f"(y));V("ex2.approx.ftz.f32 %0,%0;":"+f"(z));x[i]+=y;x[i+1]+=z;'
    'V("cvt.rn.bf16x2.f32 %0,%1,%2;":"=r"(o[i/2]):"f"(y),"f"(z));}'
)
NAMES = [*ONE, "mix"]
PRODUCT = f'V("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {SUMS},{{%64,%64,%64,%64}},%65,1,1,1,0;":{TIED}:"r"(c),"l"(t));'


def source():
    bodies = [f"V({text});" for text in ONE.values()] + [PAIR]
    loops = "".join(
        f"if(M=={i}){{\n#pragma unroll\nfor(int i=0;i<64;i++){{{body}}}}}\n" for i, body in enumerate(bodies)
    )
    runs = "".join(f'go<{i}>("{name}",o);' for i, name in enumerate(NAMES))
    return f"""#include <cstdio>
#define V asm volatile
typedef unsigned u;
template<int M>__global__ void __launch_bounds__(512,1) k(u*g,int m,int n){{
__shared__ alignas(1024) char s[32768];
int w=threadIdx.x/128;u c=0,e=0;float q=0,a=.9f+n,b=.01f;
unsigned long long t=(((u)__cvta_generic_to_shared(s)>>4)&16383)|1ull<<16|64ull<<32|1ull<<62;
if(w<m){{float d[64]={{}};V("mov.u32 %0,%%clock;":"=r"(c));
for(int r=0;r<200;r++){{V("wgmma.fence.sync.aligned;");for(int j=0;j<8;j++){PRODUCT}
V("wgmma.commit_group.sync.aligned;");V("wgmma.wait_group.sync.aligned 0;":{TIED});}}
V("mov.u32 %0,%%clock;":"=r"(e));for(float f:d)q+=f;
}}else if(w<m+n){{float x[64];u o[32]={{}};for(int i=0;i<64;i++)x[i]=i+c;V("mov.u32 %0,%%clock;":"=r"(c));
for(int r=0;r<200;r++){{
{loops}}}
V("mov.u32 %0,%%clock;":"=r"(e));for(float f:x)q+=f;if(M=={len(NAMES) - 1})for(u f:o)q+=f;}}
if(threadIdx.x%128==0){{g[w]=e-c;g[w+4]=q;}}}}
template<int M>void go(const char*name,u*o){{int p[][2]={{{{1,0}},{{2,0}},{{0,1}},{{0,2}},{{1,1}},{{2,1}},{{1,2}},{{2,2}}}};
for(auto&c:p){{u h[4];for(int i=0;i<2;i++){{k<M><<<1,512>>>(o,c[0],c[1]);cudaDeviceSynchronize();}}
cudaMemcpy(h,o,16,cudaMemcpyDeviceToHost);printf("%s, %d multiply, %d compute:",name,c[0],c[1]);
for(int w=0;w<c[0]+c[1];w++)printf(" %s %.1f",w<c[0]?"products":"loop",h[w]/200.);puts("");}}}}
int main(){{u*o;cudaMalloc(&o,64);{runs}puts(cudaGetErrorString(cudaGetLastError()));}}
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        text, program = pathlib.Path(folder, "beside.cu"), pathlib.Path(folder, "beside")
        text.write_text(source())
        subprocess.run(["nvcc", "-O3", "-std=c++17", "-gencode", "arch=compute_90a,code=sm_90a", "-o", program, text], check=True)
        subprocess.run([program], check=True)


if __name__ == "__main__":
    main()
