import { fileURLToPath } from 'node:url';
import {
  configFileJsonSchema,
  type ModelKind,
  type PretrainingConfiguration,
  parseFlags,
  validateConfiguration,
} from '@mtl/configuration';
import { listFields } from '@mtl/configuration/internal';
import { ConfigurationError, formatError } from '@mtl/errors';
import { openTraining } from '@mtl/runs';
import { loadModelBlocks } from '@mtl/runs/internal';
import { dryRun } from '../../src/dry-run/dry-run.js';

/** A flag of the architecture with one of its tested values. */
export interface Option {
  readonly flag: string;
  readonly words: readonly string[];
}

/** The part of a flag's JSON schema that lists its values. */
interface ValueSchema {
  readonly type: 'boolean' | 'integer' | 'number' | 'string' | 'array';
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
  readonly items?: ValueSchema;
}

/** Text flags with a pattern or a file name, whose values no schema lists. */
const texts: Readonly<Record<string, readonly string[]>> = {
  'window-size': ['0,0', '3,0'],
  'moe-layer-freq': ['2', '[0,1]', '[0,0]'],
  'window-attn-skip-freq': ['2', '[0,1]'],
  'no-rope-freq': ['2', '[1,0]'],
  'model-blocks': [fileURLToPath(new URL('../../../runs/test/support/own-blocks.mjs', import.meta.url))],
};

/** Returns values of a flag: all values for choices; small, odd and extreme values for numbers. */
function listValues(flag: string, schema: ValueSchema): readonly (readonly string[])[] {
  if (schema.type === 'boolean') return [[]];
  if (schema.enum !== undefined) return schema.enum.map((value) => [value]);
  if (schema.type === 'integer') return [['2'], ['3'], ['8']];
  if (schema.type === 'array') {
    const each = listValues(flag, schema.items!);
    return [...each, each.flat()];
  }
  if (schema.type === 'string') {
    if (texts[flag] === undefined) throw new Error(`no values to try of --${flag}, which takes texts`);
    return texts[flag].map((text) => [text]);
  }
  const { minimum, exclusiveMinimum = minimum ?? -1, maximum = 2, exclusiveMaximum = 3 } = schema;
  return [exclusiveMinimum + 0.25, 0, 2]
    .filter((value) => value > exclusiveMinimum || value === minimum)
    .filter((value) => value <= maximum && value < exclusiveMaximum)
    .map((value) => [`${value}`]);
}

/** Returns the flags of the architecture of a kind of model, each with its tested values. */
export function architectureOptions(kind: ModelKind): readonly (readonly Option[])[] {
  const { properties } = configFileJsonSchema() as {
    readonly properties: Readonly<Record<string, ValueSchema>>;
  };
  return listFields(kind).map(([flag]) =>
    listValues(flag, properties[flag]!).map((words) => ({ flag, words })),
  );
}

/** Options that other options need to have an effect, by the beginning of the names of these. */
const needed: readonly (readonly [begins: string, flags: Readonly<Record<string, string>>])[] = [
  ['rotary', { 'position-embedding-type': 'rope' }],
  ['rotary-scaling-factor', { 'position-embedding-type': 'yarn' }],
  ['use-rope-scaling', { 'position-embedding-type': 'rope' }],
  ['rope-scaling', { 'position-embedding-type': 'rope', 'use-rope-scaling': '' }],
  ['yarn', { 'position-embedding-type': 'yarn' }],
  ['mscale', { 'position-embedding-type': 'yarn' }],
  ['num-query-groups', { 'group-query-attention': '' }],
  ['qk-norm-whole-width', { 'qk-layernorm': '', normalization: 'RMSNorm' }],
  ['glu-linear-offset', { 'quick-geglu': '' }],
  ['activation-func-clamp-value', { 'quick-geglu': '' }],
  ['moe', { 'num-experts': '8' }],
  ['moe-router-num-groups', { 'moe-router-group-topk': '2' }],
  ['moe-router-group-topk', { 'moe-router-num-groups': '4' }],
  ['moe-router-enable-expert-bias', { 'moe-router-score-function': 'sigmoid' }],
  [
    'moe-router-bias-update-rate',
    { 'moe-router-score-function': 'sigmoid', 'moe-router-enable-expert-bias': '' },
  ],
  ['moe-router-load-balancing-type', { 'moe-aux-loss-coeff': '0.01' }],
  ['moe-shared-expert', { 'disable-bias-linear': '', 'moe-shared-expert-intermediate-size': '8' }],
  ['moe-token-drop-policy', { 'moe-expert-capacity-factor': '1' }],
];

/** A model of two layers that every option can change, and a run of one step. */
const base: Readonly<Record<string, string>> = {
  'num-layers': '2',
  'hidden-size': '16',
  'num-attention-heads': '2',
  'max-position-embeddings': '8',
  'seq-length': '8',
  'micro-batch-size': '2',
  'global-batch-size': '2',
  'train-iters': '1',
  'eval-iters': '0',
  lr: '0.001',
  threads: '1',
  'num-workers': '0',
};

/** Returns the command line of a run with these options and the options that they need. */
export function formatLine(options: readonly Option[], data: Readonly<Record<string, string>>): string[] {
  const needs = options.flatMap(({ flag }) =>
    needed.filter(([begins]) => flag.startsWith(begins)).map(([, flags]) => flags),
  );
  const given = Object.fromEntries(options.map(({ flag, words }) => [flag, words.join(' ')]));
  const flags: Record<string, string> = Object.assign({}, base, data, ...needs, given);
  return Object.entries(flags).flatMap(([flag, value]) => [
    `--${flag}`,
    ...(value === '' ? [] : value.split(' ')),
  ]);
}

/** The end of a run: it trained, was refused before, or failed in a way that no user should see. */
export type Outcome = 'trains' | 'is refused' | { readonly failure: string };

/** Runs the first step as a dry run, and with `trains` also for real: both must end in the same way. */
export async function findOutcome(
  line: readonly string[],
  { kind, trains }: { readonly kind: ModelKind; readonly trains: boolean },
): Promise<Outcome> {
  let configuration: PretrainingConfiguration;
  try {
    const flags = parseFlags([...line], { model: kind });
    await loadModelBlocks(flags);
    configuration = validateConfiguration(flags);
  } catch (error) {
    return refusalOr(error, 'configuration');
  }
  const dry = await outcomeOfBody('dry run', async () => void (await dryRun(configuration)));
  if (typeof dry === 'object' || !trains) return dry;
  const step = await outcomeOfBody('training', () => trainOneStep(configuration));
  if (typeof step === 'object' || step === dry) return step;
  return { failure: `the run ${step}, the dry run ${dry}` };
}

async function outcomeOfBody(where: string, body: () => Promise<void>): Promise<Outcome> {
  try {
    await body();
    return 'trains';
  } catch (error) {
    return refusalOr(error, where);
  }
}

function refusalOr(error: unknown, where: string): Outcome {
  const isRefusal = ConfigurationError.isInstance(error) && error instanceof ConfigurationError;
  return isRefusal ? 'is refused' : { failure: `${where}: ${formatError(error, { debug: true })}` };
}

async function trainOneStep(configuration: PretrainingConfiguration): Promise<void> {
  const training = await openTraining({
    configuration,
    job: { id: 'option pairs', restartCount: 0 },
    corpusDirectory: 'never-used',
    stream: { write: () => true },
    world: undefined,
    local: { rank: 0, size: 1 },
  });
  try {
    for await (const { loss, gradNorm: gradientNorm } of training.steps()) {
      const areFinite = Number.isFinite(loss) && Number.isFinite(gradientNorm);
      if (!areFinite) throw new Error(`the loss is ${loss}, the gradient norm ${gradientNorm}`);
    }
  } finally {
    await training.close();
  }
}
