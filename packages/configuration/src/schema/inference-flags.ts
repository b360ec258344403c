import type * as z from 'zod';
import { adapterFlagsOfConversion, adapterFlagsOfInference } from '../adapters/adapter-flags.js';
import { checkpointFlags } from '../flags/checkpoint-flags.js';
import { dataFlags } from '../flags/data-flags.js';
import { redescribed } from '../flags/flag-kinds.js';
import { trainingFlags } from '../flags/training-flags.js';
import { sharingHelp, strategyFlags } from '../strategies/strategies.js';
import { parallelFlags } from './flag-schema.js';

/** The flags for a tokenizer, in commands that have no other training flags. */
export const tokenizerFlags = {
  'tokenizer-type': redescribed(dataFlags['tokenizer-type'], { description: 'How text becomes tokens.' }),
  'tokenizer-model': dataFlags['tokenizer-model'],
  'vocab-file': redescribed(dataFlags['vocab-file'], {
    description: 'The vocab.json of GPT-2, or vocab.txt of BertWordPiece.',
    defaultText: 'GPT-2: built in',
  }),
  'merge-file': redescribed(dataFlags['merge-file'], { description: 'The merges.txt of GPT-2.' }),
  'vocab-size': dataFlags['vocab-size'],
};

/** The flags that select a checkpoint to read. */
const checkpointToRead = {
  load: redescribed(checkpointFlags.load, {
    description: 'Checkpoints of a training run: the directory of its --save.',
  }),
  'ckpt-step': redescribed(checkpointFlags['ckpt-step'], {
    description: 'The iteration.',
    defaultText: 'the newest complete checkpoint',
  }),
};

/** The flags of a conversion's input and output. Training flags have the same names. */
export const conversionFlags = {
  ...checkpointToRead,
  'save-hf': redescribed(checkpointFlags['save-hf'], {
    description: 'The Hugging Face directory to write; new or empty.',
  }),
  'load-hf': redescribed(checkpointFlags['load-hf'], {
    description:
      'A directory of the transformers library: GPT-2, Llama, Mistral, Qwen2, Qwen3, Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE or BERT; or org/name[@revision] on the Hub.',
  }),
  'vocab-size': redescribed(dataFlags['vocab-size'], {
    description: 'Real tokens, with --from.',
    defaultText: 'as the checkpoint states, else all rows',
  }),
  save: redescribed(checkpointFlags.save, {
    description: 'Directory of checkpoints to create.',
    defaultText: undefined,
  }),
  ...adapterFlagsOfConversion,
};

/** The flags of commands that use a trained model. They select the model and determine how it is computed. */
export const inferenceFlags = {
  ...checkpointToRead,
  'load-hf': redescribed(checkpointFlags['load-hf'], {
    description:
      'A directory of the transformers library: GPT-2, Llama, Mistral, Qwen2 or Qwen3; or org/name[@revision] on the Hub.',
  }),
  ...adapterFlagsOfInference,
  device: redescribed(parallelFlags.device, { description: 'Where the model computes.' }),
  threads: redescribed(parallelFlags.threads, {
    description: 'Threads of the kernels.',
    defaultText: "the process's share of the host's cores",
  }),
  bf16: redescribed(trainingFlags.bf16, { description: 'Computes in bfloat16.', defaultText: 'float32' }),
  fp16: redescribed(trainingFlags.fp16, { description: 'Computes in float16.' }),
  ...tokenizerFlags,
};

/** The flags that determine how the processes of `mtl run` share a trained model. */
export const sharingFlags: Readonly<Record<string, z.ZodType>> = Object.fromEntries(
  Object.entries(sharingHelp).map(([name, description]) => [
    name,
    redescribed(strategyFlags[name as keyof typeof strategyFlags], { description }),
  ]),
);
