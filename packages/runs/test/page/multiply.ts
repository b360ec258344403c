import { matmul, setNumThreads, Tensor, tidy } from '@mtl/kernels';

/** Returns the elements of a matmul of 96 x 96, in Node or in a worker of a page. */
export async function multiply({ numThreads }: { readonly numThreads: number }): Promise<number[]> {
  setNumThreads(numThreads);
  const shape = [96, 96];
  const values = (factor: number): number[] =>
    Array.from({ length: 96 * 96 }, (_, i) => Math.sin(factor * i));
  return tidy(() => {
    const left = Tensor.from(values(0.7), { shape, dtype: 'float32' });
    const right = Tensor.from(values(1.3), { shape, dtype: 'float32' });
    return Array.from(matmul({ left, right }).toArray());
  });
}
