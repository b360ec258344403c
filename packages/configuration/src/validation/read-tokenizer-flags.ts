import { resolveFlags } from '../flags/resolve-flags.js';
import type { TokenizerConfiguration } from '../pretraining-configuration.js';
import { tokenizerOf } from './data-configuration.js';
import { FlagReader } from './flag-reader.js';

/** The flags that describe a tokenizer, as a command line gives them. */
export interface TokenizerFlags {
  readonly 'tokenizer-type'?: string | undefined;
  readonly 'tokenizer-model'?: string | undefined;
  readonly 'vocab-file'?: string | undefined;
  readonly 'merge-file'?: string | undefined;
  readonly 'vocab-size'?: number | undefined;
}

/**
 * The tokenizer that flags describe, for programs that need no other part of a training run's configuration;
 * undefined when none is given.
 *
 * @throws ConfigurationError `MTL_FLAG_NEEDS` when they do not belong together
 */
export function readTokenizerFlags(flags: TokenizerFlags): TokenizerConfiguration | undefined {
  const given = new Map(Object.entries(flags).filter(([, value]) => value !== undefined));
  return tokenizerOf(
    new FlagReader(resolveFlags({ given: given as Map<keyof TokenizerFlags, unknown>, preset: 'none' })),
  );
}
