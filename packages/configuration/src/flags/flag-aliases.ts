import type { FlagName } from './flag-schema.js';

/** The flag that another name of Megatron-LM's means. */
export interface FlagAlias {
  readonly flag: FlagName;
  /** The value that it means, of a switch; undefined: it takes the flag's own. */
  readonly value?: string;
}

/** Flags of Megatron-LM that mean the same as a flag of the schema, by their names. */
export const flagAliases: Readonly<Record<string, FlagAlias>> = {
  'recompute-activations': { flag: 'recompute-granularity', value: 'selective' },
  'use-rotary-position-embeddings': { flag: 'position-embedding-type', value: 'rope' },
  'openai-gelu': { flag: 'gelu', value: 'tanh' },
  'layernorm-epsilon': { flag: 'norm-epsilon' },
  'override-lr-scheduler': { flag: 'override-opt-param-scheduler' },
  'use-checkpoint-lr-scheduler': { flag: 'use-checkpoint-opt-param-scheduler' },
  'muon-use-nesterov': { flag: 'muon-nesterov' },
  'model-parallel-size': { flag: 'tensor-model-parallel-size' },
};

export function findFlagAlias(name: string): FlagAlias | undefined {
  return Object.hasOwn(flagAliases, name) ? flagAliases[name] : undefined;
}
