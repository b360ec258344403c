import { CheckpointError } from '@mtl/errors';

/** Makes the error for a model whose computation has no graph. */
export const refuseModel = (problem: string, expected: string, remedy: string): CheckpointError =>
  new CheckpointError('MTL_ONNX_ARCHITECTURE', `ONNX: ${problem}`, { expected, remedy, exitCode: 2 });

/** @throws CheckpointError MTL_ONNX_ARCHITECTURE */
export function refuseKind(subject: string, kind: string, known: readonly string[]): never {
  throw refuseModel(
    `no graph computes the ${subject} '${kind}'`,
    `one of ${known.join(', ')}`,
    'write a directory of Hugging Face instead, with --save-hf DIR',
  );
}
