import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { decidesLearning } from '@mtl/configuration/saved';
import { ConfigurationError } from '@mtl/errors';
import { isJsonObject } from '@mtl/errors/files';
import { parseRepository, repositoryOfSnapshot } from '@mtl/hub';
import type { PushedFolder, TrainingFacts } from '@mtl/hub/push';
import {
  findRunDirectory,
  isRun,
  metricsPath,
  type RunStart,
  readMetricsRecords,
  readRunRecord,
} from '@mtl/run-records';

/**
 * Fields of config.json that a model card shows, under the names that the transformers library uses for
 * GPT-2, Llama and BERT.
 */
const architectureFields = [
  ...['model_type', 'num_hidden_layers', 'n_layer', 'hidden_size', 'n_embd', 'num_attention_heads', 'n_head'],
  ...['num_key_value_heads', 'intermediate_size', 'max_position_embeddings', 'n_positions', 'vocab_size'],
  ...['num_local_experts', 'num_experts', 'num_experts_per_tok', 'torch_dtype', 'dtype'],
];

/**
 * Returns the folder of the run that made a model: the folder that the user names, or else the parent of the
 * model's folder. Returns undefined if this parent is not a run.
 *
 * @throws ConfigurationError MTL_RUN_NONE if the named folder is not a run
 */
export function runOfFolder(directory: string, named: string | undefined): string | undefined {
  if (named !== undefined) return findRunDirectory(named);
  const above = dirname(resolve(directory));
  return isRun(above) ? above : undefined;
}

/**
 * Returns the sizes of a model from its config.json. Fields whose values are not numbers or words are left
 * out.
 */
export function describeArchitecture({
  directory,
}: PushedFolder): Readonly<Record<string, string | number>> | undefined {
  const fields = fieldsIn(join(directory, 'config.json'));
  if (fields === undefined) return undefined;
  const found = architectureFields.flatMap((name) => {
    const value = fields[name];
    return typeof value === 'number' || (typeof value === 'string' && isWord(value))
      ? [[name, value] as const]
      : [];
  });
  return Object.fromEntries(found);
}

/** Returns the base model on the Hub that a folder of adapters names; undefined for other folders. */
export function readBaseModel({ directory }: PushedFolder): string | undefined {
  return nameOfModel(fieldsIn(join(directory, 'adapter_config.json'))?.base_model_name_or_path);
}

/** Returns the fields of a JSON file; undefined if the file does not exist. */
function fieldsIn(path: string): Readonly<Record<string, unknown>> | undefined {
  if (!existsSync(path)) return undefined;
  try {
    const fields: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (isJsonObject(fields)) return fields;
  } catch {
    // the problem is reported below, together with JSON that is not an object
  }
  throw new ConfigurationError('MTL_HUB_PUSH_FOLDER', `${path} is no JSON object`, {
    expected: 'a file that save_pretrained or mtl wrote',
    remedy: 'write the folder again: mtl convert, or --save-hf',
  });
}

/**
 * Returns the facts about a model's training from the record and the metrics of a run, and the name of the
 * Hub model from which the run started. Paths of datasets are shortened to names, and flags with paths are
 * left out.
 *
 * @throws ConfigurationError MTL_RUN_RECORD
 */
export function describeTraining(
  run: string,
): { readonly training: TrainingFacts; readonly baseModel: string | undefined } | undefined {
  const record = readRunRecord(run);
  if (record === undefined) return undefined;
  const [first, last] = [record.starts[0]!, record.starts.at(-1)!];
  const metrics = readMetricsRecords(metricsPath(run));
  const losses = (isWanted: (type: string | undefined) => boolean) =>
    metrics.flatMap(({ type, iteration, lm_loss: loss }) =>
      isWanted(type) && loss !== null && loss !== undefined ? [{ iteration, loss }] : [],
    );
  return {
    baseModel: nameOfModel((first.resolved ?? first.flags)['load-hf']),
    training: {
      program: `mtl ${last.versions.mtl}`,
      iterations: last.end?.iteration ?? last.trainIterations,
      flags: listFlags(last),
      data: last.datasets.map((each) => ({
        name: basename('prefix' in each ? each.prefix : each.path),
        bytes: 'prefix' in each ? each.binBytes + each.idxBytes : each.bytes,
        sha256: each.sampledSha256,
      })),
      losses: losses((type) => type === undefined),
      evaluations: losses((type) => type === 'validation'),
    },
  };
}

function listFlags({ resolved, flags }: RunStart): Readonly<Record<string, string | number | boolean>> {
  const stated = Object.entries(resolved ?? flags).flatMap(([name, value]) => {
    const isShown =
      typeof value === 'number' || value === true || (typeof value === 'string' && isWord(value));
    return decidesLearning(name) && isShown ? [[name, value] as const] : [];
  });
  return Object.fromEntries(stated);
}

/** Returns true if a value is a word, such as the name of a schedule, and not a path. */
const isWord = (text: string): boolean => /^[\w.,:+-]+$/.test(text);

/** Returns the name of a Hub model, given the value of --load-hf; undefined for other directories. */
function nameOfModel(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const named = existsSync(value) ? undefined : parseRepository(value)?.name;
  return repositoryOfSnapshot(value)?.name ?? named;
}
