import type { TokenizerOptions } from '@mtl/data';
import type { BatchPosition } from '@mtl/optimizer';
import type { FlagName, Flags } from './flag-schema.js';

/** What --load or --load-hf knows about the flags of a run. Plain data, which ranks broadcast. */
export interface LoadedFlags {
  /** For the printed configuration: `checkpoint runs/a/iter_0000010`, `Hugging Face directory gpt2`. */
  readonly source: string;
  readonly values: Flags;
  /** Those that a flag with another value contradicts. */
  readonly fixed: readonly FlagName[];
  /** Values of fixed flags that a run may choose all the same. Default: none. */
  readonly alternatives?: Readonly<Partial<Record<FlagName, 'all' | readonly unknown[]>>>;
  /** The tokenizer that `values` describes: its options say more than flags can. */
  readonly tokenizer?: TokenizerOptions;
  /** Tokens that the model knows. */
  readonly vocabularySize: number;
  /** Where training goes on; absent where it begins anew. */
  readonly start?: BatchPosition;
}
