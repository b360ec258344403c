import { type DType, hostInformation } from '@mtl/kernels';

/**
 * Whether matmuls of a dtype take much scratch memory on this processor, which the memory plan does not know:
 * without bf16 instructions oneDNN converts whole operands to float32.
 */
export function convertsOperands(dtype: DType): boolean {
  return dtype === 'bfloat16' && hostInformation().detectedInstructionSet !== 'avx512';
}
