import * as z from 'zod';
import { parseFlags } from '../../src/command-line/parse-flags.js';
import type { PretrainingConfiguration } from '../../src/pretraining-configuration.js';
import { type FlagName, findFlagFacts, findSchema } from '../../src/schema/flag-schema.js';
import { validateConfiguration } from '../../src/validation/validate-configuration.js';

/** Flags of a model without a preset, with the length of training and of warm-up that a preset would give. */
const own =
  '--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 ' +
  '--micro-batch-size 2 --lr 1e-3';
const mock = '--mock-data --tokenizer-type NullTokenizer --vocab-size 255';
const experts =
  '--preset gpt2-4m --swiglu --disable-bias-linear --num-experts 8 --moe-router-score-function sigmoid ' +
  '--moe-router-enable-expert-bias --moe-router-num-groups 2 --moe-router-group-topk 1 --load x --finetune ' +
  '--moe-shared-expert-intermediate-size 64 --moe-expert-capacity-factor 2 --moe-aux-loss-coeff 0.1';

/** Runs by model, number of processes and flags. Each flag must change at least one of the runs. */
export const runs = [
  ['gpt', 1, '--preset gpt2-4m --fp16 --data-path a --tokenizer-type GPT2BPETokenizer --load x'],
  ['gpt', 1, '--recompute-granularity full --recompute-method block --profile-steps 1 2'],
  ['gpt', 8, '--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --use-distributed-optimizer'],
  ['gpt', 1, '--preset gpt2-4m --position-embedding-type yarn --window-size 8,0'],
  ['gpt', 1, '--preset gpt2-4m --bf16 --use-precision-aware-optimizer'],
  ['gpt', 8, experts],
  ['bert', 1, ''],
  ['gpt', 1, `${own} ${mock} --train-iters 8`],
  ['gpt', 1, `${own} ${mock} --train-samples 800 --optimizer muon --decoupled-lr 1e-3`],
  ['gpt', 1, `${own} ${mock} --train-samples 800 --lr-decay-style WSD --lr-wsd-decay-samples 80`],
  [
    'gpt',
    1,
    `${own} --epochs 2 --train-data a --validation-data b --tokenizer-type HuggingFaceTokenizer --tokenizer-model m`,
  ],
  ['gpt', 1, '--preset gpt2-4m --train-data a --validation-fraction 0.1 --early-stopping-patience 2'],
  ['gpt', 1, '--lr-decay-style WSD --lr-wsd-decay-iters 5'],
  ['gpt', 1, '--preset gpt2-4m --recompute-granularity selective --device cuda'],
  ['gpt', 1, '--preset gpt2-4m --save x --save-interval 1'],
  [
    'gpt',
    1,
    '--preset gpt2-4m --group-query-attention --num-query-groups 1 --position-embedding-type rope --use-rope-scaling',
  ],
  ['gpt', 2, '--preset gpt2-4m --pipeline-model-parallel-size 2 --global-batch-size 32'],
  ['gpt', 4, '--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2'],
  ['gpt', 1, '--preset gpt2-4m --lora-rank 4 --load x --save-lora y'],
  ['gpt', 1, '--preset gpt2-4m --lora-rank 4 --load-hf x'],
  ['gpt', 1, '--preset gpt2-4m --num-experts 4 --load-hf x'],
  ['gpt', 1, '--data-path a --preset gpt2-4m --tokenizer-type HuggingFaceTokenizer --tokenizer-model m'],
  [
    'gpt',
    1,
    '--data-path a --preset gpt2-4m --tokenizer-type GPT2BPETokenizer --vocab-file v --merge-file m',
  ],
  ['gpt', 1, '--wandb-project p --mlflow-tracking-uri http://host'],
] as const;

/** Values to try for flags whose texts have a grammar. */
const particular: Readonly<Partial<Record<FlagName, readonly unknown[]>>> = {
  'window-size': ['4,0'],
  'moe-layer-freq': ['2'],
  'window-attn-skip-freq': ['2'],
  'no-rope-freq': ['2'],
  'rampup-batch-size': [[2, 2, 80]],
  'moe-aux-loss-coeff': [[0.2]],
  'mlflow-tracking-uri': ['http://other'],
  'hierarchical-context-parallel-sizes': [[1, 4]],
  'lora-targets': [['c_attn']],
};

/** Returns values to try. At least one value must have the effect of the flag. */
export function listValues(name: FlagName): readonly unknown[] {
  const schema = z.toJSONSchema(findSchema(name), { unrepresentable: 'any' });
  const choices = (of: unknown): readonly unknown[] =>
    (of as { enum?: readonly unknown[] } | undefined)?.enum ?? [];
  const usual = {
    boolean: [true, false],
    choice: [schema, ...(schema.anyOf ?? [])].flatMap(choices),
    choices: choices(schema.items).map((choice) => [choice]),
    integer: [1, 2, 3, 4, 8, 16, 64, 512, 1024],
    integers: [[1], [2, 4], [1, 2], [0, 1]],
    number: [0.5, 0.1, 1.5, 2, 0.25, 1e-4, 100],
    numbers: [
      [0.5, 0.6],
      [0.8, 0.1, 0.1],
    ],
    text: ['b', 'tt|tt', '90,5,5'],
    texts: [['b'], ['b', 'c']],
  } as const;
  const values = particular[name] ?? usual[findFlagFacts(name).kind];
  return values.filter((value) => findSchema(name).safeParse(value).success);
}

type ParsedRun = ReturnType<typeof parseFlags>;

/** The resolved part of a configuration: everything but its flags, their sources and notices. */
export type Resolved = Omit<PretrainingConfiguration, 'flags' | 'sources' | 'preset' | 'notices'>;

/** Returns the resolved configuration of flags; undefined if the run is rejected. */
export function resolveRun(flags: ParsedRun, worldSize: number): Resolved | undefined {
  const conversations =
    flags.values['train-data'] === undefined ? {} : { conversations: { numTrain: 10, numValidation: 3 } };
  try {
    const {
      flags: _,
      sources,
      preset,
      notices,
      ...does
    } = validateConfiguration(flags, { worldSize, ...conversations });
    return does;
  } catch {
    return undefined;
  }
}

/** The runs with their flags and their resolved configurations. */
export const plainRuns = runs.map(([model, worldSize, line]) => {
  const words = line.split(' ').filter((word) => word !== '');
  const flags = parseFlags(words, { model });
  return { flags, worldSize, resolved: resolveRun(flags, worldSize) };
});
