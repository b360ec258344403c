import type { FlagName } from '../../schema/flag-schema.js';
import { megatronFamiliesOfStrategies, megatronFlagsOfStrategies } from '../../strategies/strategies.js';
import type { UnusableFlag } from '../unusable-flags.js';
import { type MegatronFlag, refused } from './megatron-flag.js';
import { megatronKernelFlags } from './megatron-kernel-flags.js';
import { megatronExpertFlags, megatronModelFlags } from './megatron-model-flags.js';
import { megatronParallelFlags } from './megatron-parallel-flags.js';
import { megatronReportFlags } from './megatron-report-flags.js';
import { megatronTrainingFlags } from './megatron-training-flags.js';

/** Unsupported parts of Megatron-LM by the prefix of their flags. The longest matching prefix counts. */
export const megatronFlagFamilies: Readonly<Record<string, MegatronFlag>> = {
  ...megatronFamiliesOfStrategies,
  ...refused('experts are made new; making them from dense layers is not built yet', 'leave it out', {
    'moe-upcycling-': 'experts made from dense layers',
  }),
  ...refused('matmuls are computed in fp32, bf16 or fp16', 'use --bf16', {
    'fp8-': 'training in FP8',
    'fp4-': 'training in FP4',
    'kitchen-': 'quantised training',
    'reuse-grad-buf-for-mxfp8': 'training in FP8',
    'keep-fp8-': 'training in FP8',
  }),
  ...refused('models are GPTs, those of the Llama family among them, and BERTs', 'leave it out', {
    'mamba-': 'state-space layers',
    'disable-mamba-': 'state-space layers',
    'hybrid-': 'hybrid models',
    'heterogeneous-': 'layers of different shapes',
    'retro-': 'retrieval',
    'retriever-': 'retrieval',
    'indexer-': 'retrieval',
    'ict-': 'retrieval',
    'biencoder-': 'retrieval',
    'vision-': 'images',
    'dino-': 'images',
    'swin-': 'images',
  }),
  ...refused('models learn from text only, by predicting its tokens', 'leave it out', {
    'rl-': 'reinforcement learning',
    'grpo-': 'reinforcement learning',
    'langrl-': 'reinforcement learning',
    'kd-': 'distillation',
  }),
  ...refused('models are trained at full size', 'leave it out', {
    'modelopt-': 'model compression',
  }),
  ...refused('every layer has softmax attention', 'leave it out', {
    'linear-': 'linear attention',
  }),
  ...refused(
    'the chat template of the tokenizer decides how conversations are written',
    'use --chat-template FILE',
    {
      'sft-': 'fine-tuning on conversations',
    },
  ),
  ...refused('a training run does not serve requests', 'use mtl generate', { 'inference-': 'generation' }),
  ...refused('checkpoints are written at --save-interval, each complete and once', 'leave it out', {
    'replication-': 'replicated checkpoints',
    'non-persistent-': 'temporary checkpoints',
  }),
  ...refused('a failed run ends and is started again from its newest complete checkpoint', 'leave it out', {
    'inprocess-': 'restarting inside the process',
    'adlr-autoresume': 'resuming on one cluster of NVIDIA',
    'ft-': 'fault tolerance by another package',
  }),
  ...refused(
    'reports go to files, Weights & Biases or MLflow',
    'use --wandb-project or --mlflow-tracking-uri',
    {
      'one-logger-': 'reports to NVIDIA',
      'app-tag-': 'reports to NVIDIA',
    },
  ),
  'straggler-': {
    what: 'how slow processes are found',
    why: 'slow ranks are found and named by default',
    harmless: 'always',
    takes: 'many',
  },
};

/** All known flags of Megatron-LM that are not in the schema, by name. */
export const megatronFlags: Readonly<Record<string, MegatronFlag>> = {
  ...megatronModelFlags,
  ...megatronExpertFlags,
  ...megatronKernelFlags,
  ...megatronParallelFlags,
  ...megatronFlagsOfStrategies,
  ...megatronTrainingFlags,
  ...megatronReportFlags,
};

/** Returns the entry of a Megatron-LM flag, by its name with dashes; undefined for an unknown one. */
export function findMegatronFlag(written: string): MegatronFlag | undefined {
  // Megatron-LM has flags with capital letters: --DDP-impl
  const name = written.toLowerCase();
  if (Object.hasOwn(megatronFlags, name)) return megatronFlags[name];
  const beginnings = Object.keys(megatronFlagFamilies).filter((beginning) => name.startsWith(beginning));
  const [longest] = beginnings.sort((a, b) => b.length - a.length);
  return longest === undefined ? undefined : megatronFlagFamilies[longest];
}

/**
 * Decides whether a flag of Megatron-LM that is not in the schema can be ignored.
 *
 * @returns a message for the user if the flag has no effect; an unusable flag with the code
 *   `MTL_FLAG_UNSUPPORTED` and the reason if leaving it out would change the training run
 */
export function judgeMegatronFlag(options: {
  readonly name: string;
  readonly megatron: MegatronFlag;
  readonly values: readonly string[];
  readonly where: string;
  /** Returns the value of another flag in the same command line or file. */
  readonly valueOfFlag: (flag: FlagName) => unknown;
}): string | UnusableFlag {
  const { name, megatron, values, where, valueOfFlag } = options;
  const { what, why, instead, harmless, harmlessWith } = megatron;
  const written = [`--${name}`, ...values].join(' ');
  if (harmless === 'always') return `${written} ${where} has no effect: ${why}`;
  if (harmless?.includes(values.join(' ')))
    return `${written} ${where} has no effect: that is how it always is here`;
  if (harmlessWith !== undefined) {
    const { flag, values: meant } = harmlessWith;
    const value = valueOfFlag(flag as FlagName);
    const because = harmlessWith.why ?? `--${flag} ${value} says the same`;
    if (value !== undefined && meant?.includes(value) !== false)
      return `${written} ${where} has no effect: ${because}`;
  }
  return {
    code: 'MTL_FLAG_UNSUPPORTED',
    written,
    problem: `(${what} in Megatron-LM) is not supported: ${why}`,
    expected: harmless === undefined || harmless.length === 0 ? undefined : harmless.join(' or '),
    remedy: instead ?? 'leave it out',
    details: { flag: name, values },
  };
}
