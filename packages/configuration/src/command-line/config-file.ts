import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname } from 'node:path';
import { ConfigurationError, nearestName } from '@mtl/errors';
import type { YAMLParseError } from 'yaml';
import { bundledCorpus } from '../flags/data-flags.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { type FlagName, type Flags, findFlagAlias, flagNames, isFlagName } from '../schema/flag-schema.js';
import { readFlagValue } from '../schema/flag-value.js';
import { findMegatronFlag, judgeMegatronFlag } from './megatron/judge-megatron-flag.js';
import { type UnusableFlag, unusableFlagsError } from './unusable-flags.js';

/** The contents of a file of --config. */
export interface ConfigFile {
  readonly path: string;
  readonly preset: string | undefined;
  readonly values: ReadonlyMap<FlagName, unknown>;
  /** Messages about keys in the file that have no effect. */
  readonly notices: readonly string[];
}

/**
 * Marks the configuration in a checkpoint. The `flags` of such a configuration can be read like a file of
 * --config.
 */
export const savedConfigurationFormat = 'mtl-configuration';

/**
 * Reads a YAML or JSON file that maps flag names (with dashes or underscores) to values, and `preset` to a
 * name. The configuration that a checkpoint stores can be read in the same way.
 *
 * @param unused values of flags that the program does not use; keys that have no effect with these values are
 *   accepted
 * @throws ConfigurationError `MTL_CONFIG_FILE` if the file cannot be read or parsed; `MTL_CONFIG_KEY`, which
 *   contains the nearest known key, for an unknown key; `MTL_FLAG_VALUE` for a bad value;
 *   `MTL_FLAG_UNSUPPORTED` for a flag of Megatron-LM that is not supported. One error names all unknown and
 *   unsupported keys.
 */
export function readConfigFile(path: string, unused: Flags = {}): ConfigFile {
  const where = `in ${path}`;
  const values = new Map<FlagName, unknown>();
  const notices: string[] = [];
  const unusable: UnusableFlag[] = [];
  const others: [key: string, value: unknown][] = [];
  const settings = settingsIn(path);
  let preset = settings.preset;
  for (const [key, value] of Object.entries(settings.flags)) {
    const written = key.replaceAll('_', '-');
    const alias = findFlagAlias(written);
    const name = alias?.flag ?? written;
    if (name === 'preset') {
      if (typeof value !== 'string') throw fileError(`preset ${where} is ${JSON.stringify(value)}`, 'a name');
      preset = value;
    } else if (isFlagName(name)) {
      if (alias?.value !== undefined && typeof value !== 'boolean')
        throw fileError(`${written} ${where} is ${JSON.stringify(value)}`, 'true or false');
      if (alias?.value !== undefined && value === false) continue;
      if (values.has(name)) throw fileError(`${name} is given twice ${where}`, 'each key once');
      values.set(name, readFlagValue({ name, value: alias?.value ?? value, where }));
    } else {
      others.push([name, value]);
    }
  }
  for (const [key, value] of others) {
    const judged = judgeOtherKey({
      key,
      value,
      where,
      valueOfFlag: (flag) => values.get(flag) ?? unused[flag],
    });
    if (typeof judged === 'string') notices.push(judged);
    else unusable.push(judged);
  }
  const [first, ...rest] = unusable;
  if (first !== undefined) throw unusableFlagsError([first, ...rest], where);
  return { path, preset, values, notices };
}

interface Settings {
  readonly flags: Record<string, unknown>;
  readonly preset: string | undefined;
}

function settingsIn(path: string): Settings {
  const parsed = parseText(path, readText(path));
  if (!isMapping(parsed)) {
    throw fileError(
      `${path} does not hold settings`,
      'a mapping of flag names to values, such as "num-layers: 12"',
    );
  }
  if (parsed.format !== savedConfigurationFormat) return { flags: parsed, preset: undefined };
  // a saved configuration contains the values of all flags, so defaults and presets must not be added
  if (isMapping(parsed.flags)) return { flags: { ...derivedIn(parsed), ...parsed.flags }, preset: 'none' };
  throw fileError(`${path} is a saved configuration without flags`, 'a mapping under "flags"');
}

/**
 * Returns values that a saved configuration may have derived from other flags, but that a command line must
 * contain.
 */
function derivedIn({ resolved }: Record<string, unknown>): Record<string, unknown> {
  const { model, data } = (resolved ?? {}) as Partial<PretrainingConfiguration>;
  return {
    ...(model === undefined ? {} : { 'max-position-embeddings': model.maxPositionEmbeddings }),
    ...(data?.dataPath.length === 0 && data.conversations === undefined && data.mockData !== true
      ? { 'data-path': [bundledCorpus] }
      : {}),
  };
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    const reason = { ENOENT: 'does not exist', EISDIR: 'is a directory' }[code] ?? message;
    throw new ConfigurationError('MTL_CONFIG_FILE', `--config ${path}: ${reason}`, {
      expected: 'a YAML or JSON file',
      cause: error,
    });
  }
}

/** Loads the YAML parser only for a YAML file, because loading takes 50 ms. */
const yaml = (): typeof import('yaml') => createRequire(import.meta.url)('yaml');

function parseText(path: string, text: string): unknown {
  const isJson = extname(path) === '.json';
  try {
    return isJson ? JSON.parse(text) : yaml().parse(text);
  } catch (error) {
    const line = isJson ? lineOfJsonError(error, text) : (error as YAMLParseError).linePos?.[0].line;
    const place = line === undefined ? '' : `, line ${line}`;
    const reason = (error as Error).message.split('\n', 1)[0];
    throw new ConfigurationError('MTL_CONFIG_FILE', `${path}${place}: ${reason}`, {
      expected: isJson ? 'JSON' : 'YAML',
      cause: error,
    });
  }
}

function lineOfJsonError(error: unknown, text: string): number | undefined {
  const position = /at position (\d+)/.exec((error as Error).message)?.[1];
  return position === undefined ? undefined : text.slice(0, Number(position)).split('\n').length;
}

/**
 * Checks a key that is not in the schema. Returns a notice if the key has no effect, or the reason why the
 * key cannot be used.
 */
function judgeOtherKey(options: {
  key: string;
  value: unknown;
  where: string;
  valueOfFlag: (flag: FlagName) => unknown;
}): string | UnusableFlag {
  const { key, value, where, valueOfFlag } = options;
  const megatron = findMegatronFlag(key);
  if (megatron !== undefined) {
    const values = value === true ? [] : (Array.isArray(value) ? value : [value]).map(String);
    return judgeMegatronFlag({ name: key, megatron, values, where, valueOfFlag });
  }
  const near = nearestName(key, flagNames);
  return {
    code: 'MTL_CONFIG_KEY',
    written: key,
    problem: 'is not a flag',
    expected: near === undefined ? 'the name of a flag' : near,
    remedy: '--help lists all flags',
    details: { key, near },
  };
}

function fileError(message: string, expected: string): ConfigurationError {
  return new ConfigurationError('MTL_CONFIG_FILE', message, { expected });
}
