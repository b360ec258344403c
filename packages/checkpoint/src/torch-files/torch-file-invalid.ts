import { CheckpointError } from '@mtl/errors';

/** The error for a file of PyTorch that breaks its format, or has what is not read. */
export function torchFileInvalid(
  path: string,
  problem: string,
  { expected, remedy }: { readonly expected?: string; readonly remedy?: string } = {},
): CheckpointError {
  return new CheckpointError('MTL_TORCH_FILE_INVALID', `${path}: ${problem}`, {
    ...(expected === undefined ? {} : { expected }),
    remedy: remedy ?? 'copy the checkpoint again, all of its files together',
    details: { path },
    exitCode: 2,
  });
}
