import { fieldsOf } from '../architecture/fields-of.js';
import type { ModelKind } from '../model-kind.js';
import { expertParallelFlags } from '../strategies/expert-parallelism.js';
import { bertFlags } from './bert-flags.js';
import { conversationFlags } from './conversation-flags.js';
import type { FlagName } from './flag-schema.js';
import { loraFlags } from './lora-flags.js';

const kindsOfFields = new Map<FlagName, ModelKind | undefined>(
  fieldsOf().map(([name, { kind }]) => [name, kind]),
);
const gptFlags = new Set<FlagName>([
  ...(['eod-mask-loss', 'reset-position-ids', 'reset-attention-mask', 'mock-data'] as const),
  ...(['load-lora', 'save-lora'] as const),
  ...(Object.keys(loraFlags) as FlagName[]),
  ...(Object.keys(expertParallelFlags) as FlagName[]),
  ...(Object.keys(conversationFlags) as FlagName[]),
]);

/** The only model that a flag belongs to; undefined for those of all models. */
export function modelOfFlag(name: FlagName): ModelKind | undefined {
  if (kindsOfFields.has(name)) return kindsOfFields.get(name);
  if (Object.hasOwn(bertFlags, name)) return 'bert';
  return gptFlags.has(name) ? 'gpt' : undefined;
}
