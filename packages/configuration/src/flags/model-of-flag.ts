import type { ModelKind } from '../model-kind.js';
import { bertFlags } from './bert-flags.js';
import type { FlagName } from './flag-schema.js';

const gptFlags = new Set<FlagName>([
  'untie-embeddings-and-output-weights',
  'eod-mask-loss',
  'reset-position-ids',
  'reset-attention-mask',
]);

/** The only model that a flag belongs to; undefined for those of all models. */
export function modelOfFlag(name: FlagName): ModelKind | undefined {
  if (Object.hasOwn(bertFlags, name)) return 'bert';
  return gptFlags.has(name) ? 'gpt' : undefined;
}
