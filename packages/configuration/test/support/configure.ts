import type { MtlError } from '@mtl/errors';
import { expect } from 'vitest';
import { parseFlags } from '../../src/command-line/parse-flags.js';
import type { PretrainingConfiguration } from '../../src/pretraining-configuration.js';
import { validateConfiguration } from '../../src/validation/validate-configuration.js';

/** Returns the configuration for a line of flags. */
export function configure(line: string, worldSize = 1): PretrainingConfiguration {
  return validateConfiguration(parseFlags(line.split(' ').filter((word) => word !== '')), { worldSize });
}

/** Returns the error with which a line of flags is rejected. */
export function catchError(line: string, worldSize = 1): MtlError {
  try {
    configure(line, worldSize);
  } catch (error) {
    expect(error).toMatchObject({ exitCode: 2 });
    return error as MtlError;
  }
  throw new Error(`no error for ${line}`);
}

/** A command line without a preset that passes all checks. */
export const small =
  '--preset none --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --micro-batch-size 2 --train-iters 100 --lr 1e-3 --data-path bundled';

/**
 * Returns `small` with further flags, which replace flags of `small`; `--no-train-iters` removes that flag.
 */
export function withFlags(line: string): string {
  const removed = [...line.matchAll(/--(?:no-)?([a-z0-9-]+)/g)].map((match) => match[1]!);
  const base = removed.reduce((text, name) => text.replace(new RegExp(` --${name} \\S+`), ''), small);
  const kept = line.includes('--train-samples') && !line.includes('--no-train-iters') ? small : base;
  return `${kept} ${line.replace('--no-train-iters', '')}`;
}
