import { resolve } from 'node:path';
import type { OptionsOf } from '@mtl/configuration';
import { conversionFlags } from '@mtl/configuration/flags';
import { ConfigurationError, listedNames } from '@mtl/errors';
import { type BegunCheckpoint, type WeightFormat, type WrittenWeights, weightFormats } from '@mtl/runs';
import type { Command } from 'commander';
import { addFlags } from '../command-line/flag-options.js';
import { newCommand } from '../command-line/new-command.js';
import { choiceOption } from '../command-line/option-values.js';
import { summaries } from './summaries.js';

type ConvertFlags = OptionsOf<typeof conversionFlags> & {
  readonly from?: string;
  readonly to?: string;
  readonly dtype?: string;
  readonly outtype?: string;
  readonly loadOptim?: boolean;
};

const examples = `
Examples:
  mtl convert --load runs/shakespeare --save-hf shakespeare-hf
  mtl convert --load-hf gpt2 --save runs/gpt2        (prints the command that continues training)
  mtl convert --load runs/bert --save-hf bert-hf     (BERTs with layer norm after sublayers: transformers has no others)
  mtl convert --load runs/lora --save-lora adapters  (of a run with --lora-rank, as PEFT loads them)
  mtl convert --load-hf smollm --load-lora adapters --save-hf merged
  mtl convert --from megatron checkpoints/gpt --save runs/gpt
                                                     (Megatron-LM's formats torch_dist and torch)
  mtl convert --load runs/gpt --to megatron checkpoints/gpt
                                                     (as torch_dist; Megatron-LM loads it with --no-load-optim --no-load-rng)
  mtl convert --load runs/shakespeare --to gguf shakespeare.gguf --dtype q8_0
                                                     (one file with the tokenizer; add --load-lora with --load-hf to merge)
  mtl convert --load runs/shakespeare --to onnx shakespeare-onnx --dtype fp32,q8
                                                     (transformers.js: pipeline('text-generation', DIR, { dtype: 'q8' }))
  mtl convert --load runs/shakespeare --to page shakespeare-page
                                                     (then npx serve shakespeare-page, or any other static server)`;

/** Returns the table of formats for help: the formats that the program reads and writes, and their flags. */
function formatTable(formats: readonly WeightFormat[]): string {
  const rows = formats.map((format) => {
    const { name, path, description, dtypes } = format;
    const ways = [
      ...(isWritten(format) ? [`--to ${name} ${path}`] : []),
      ...(isRead(format) ? [`--from ${name} ${path}`] : []),
    ];
    return { ways: ways.join(', '), description, dtypes: dtypes.join(', ') };
  });
  const width = Math.max(...rows.map(({ ways }) => ways.length));
  const lines = rows.flatMap(({ ways, description, dtypes }) => [
    `  ${ways.padEnd(width)}  ${description}`,
    ...(dtypes === '' ? [] : [`  ${' '.repeat(width)}  --dtype ${dtypes}`]),
  ]);
  return ['', 'Formats:', ...lines].join('\n');
}

const listNames = (formats: readonly WeightFormat[]): string[] => formats.map(({ name }) => name);
const isWritten = ({ fromCheckpoint, fromHuggingFace }: WeightFormat): boolean =>
  fromCheckpoint !== undefined || fromHuggingFace !== undefined;
const isRead = ({ toCheckpoint }: WeightFormat): boolean => toCheckpoint !== undefined;
const written = weightFormats.filter(isWritten);
const allDtypes = [...new Set(written.flatMap(({ dtypes }) => dtypes))];
const read = weightFormats.filter(isRead);

/**
 * Creates the command `mtl convert`, which converts between checkpoints of training runs and formats of other
 * programs.
 */
export function convertCommand(): Command {
  const command = newCommand('convert', summaries.convert).argument(
    '[path]',
    'A directory or a file of the other program: with --from what to convert, with --to where to; new. With --from gguf also org/name/FILE.gguf[@revision] on the Hub.',
  );
  return addFlags(command, conversionFlags)
    .addOption(
      choiceOption(
        '--dtype <name>',
        'Data type of the stored weights; --outtype is the same. With --to onnx a list: fp32,q8. [onnx: fp32, page: q8; else as in the directory that the model came from, or float32]',
        allDtypes,
        { several: true },
      ),
    )
    .addOption(choiceOption('--outtype <name>', 'Same as --dtype.', allDtypes, { several: true }).hideHelp())
    .addOption(choiceOption('--from <format>', 'Converts a model of another program.', listNames(read)))
    .addOption(choiceOption('--to <format>', 'Writes the weights for another program.', listNames(written)))
    .option('--no-load-optim', 'Takes only the weights, with --from, and begins at iteration 0.')
    .addHelpText('after', `${formatTable(weightFormats)}\n${examples}`)
    .action(convert);
}

/** A conversion, and the flags that select it. */
interface Conversion {
  readonly format: WeightFormat;
  readonly needs: readonly string[];
  readonly allows: readonly string[];
  run(path: string, flags: ConvertFlags): Promise<string>;
}

const onNotice = (notice: string): void => void process.stderr.write(`${notice}\n`);

const dtypeFlag = ({ dtypes }: WeightFormat): string[] => (dtypes.length === 0 ? [] : ['dtype']);

const report = (path: string, { source, target = path, dtype }: WrittenWeights): string =>
  `${source} -> ${target}${dtype === undefined ? '' : ` (${dtype})`}\n`;

/**
 * Returns how the user can request a format as the target of a conversion: with the format's own flag, or
 * with --to and a path.
 */
const listTargets = ({ flags }: WeightFormat): readonly (readonly string[])[] => [
  ...(flags?.write === undefined ? [] : [[flags.write]]),
  ['to', 'path'],
];

/** Returns the conversions from checkpoints to a format. */
function conversionsFromCheckpoints(format: WeightFormat): readonly Conversion[] {
  const { fromCheckpoint, flags: own } = format;
  if (fromCheckpoint === undefined) return [];
  return listTargets(format).map((target) => ({
    format,
    needs: ['load', ...target],
    allows: ['ckptStep', ...dtypeFlag(format)],
    run: async (operand, flags) => {
      const path = target.includes('to') ? operand : flags[own!.write!]!;
      const { load, ckptStep: checkpointStep, dtype } = flags;
      return report(path, await fromCheckpoint({ load: load!, checkpointStep, path, dtype, onNotice }));
    },
  }));
}

/** Returns the conversions from directories of the transformers library to a format. */
function conversionsFromHuggingFace(format: WeightFormat): readonly Conversion[] {
  const { fromHuggingFace, flags: own } = format;
  if (fromHuggingFace === undefined) return [];
  const isRequired = fromHuggingFace.adapters === 'required';
  return listTargets(format).map((target) => ({
    format,
    needs: ['loadHf', ...target, ...(isRequired ? ['loadLora'] : [])],
    allows: [...(isRequired ? [] : ['loadLora']), ...dtypeFlag(format)],
    run: async (operand, flags) => {
      const path = target.includes('to') ? operand : flags[own!.write!]!;
      const { loadHf, loadLora, dtype } = flags;
      const model = { loadHuggingFace: loadHf!, loadLora, path, dtype, onNotice };
      return report(path, await fromHuggingFace.write(model));
    },
  }));
}

const readFlags = { step: 'ckptStep', vocabularySize: 'vocabSize', loadOptimizer: 'loadOptim' } as const;

/** Returns the conversions from a format to checkpoints. */
function conversionsToCheckpoints(format: WeightFormat): readonly Conversion[] {
  const { toCheckpoint, flags: own } = format;
  if (toCheckpoint === undefined) return [];
  const sources = [...(own?.read === undefined ? [] : [[own.read]]), ['from', 'path']];
  return sources.map((source) => ({
    format,
    needs: [...source, 'save'],
    allows: toCheckpoint.options.map((option) => readFlags[option]),
    run: async (operand, flags) => {
      const begun = await toCheckpoint.read({
        path: source.includes('from') ? operand : flags[own!.read!]!,
        step: flags.ckptStep,
        vocabularySize: flags.vocabSize,
        loadOptimizer: flags.loadOptim,
        directory: flags.save!,
        onNotice,
      });
      return `${begun.source} -> ${begun.path}\n${adviceFor(begun, flags.save!)}\n`;
    },
  }));
}

const conversions: readonly Conversion[] = [
  ...weightFormats.flatMap(conversionsFromCheckpoints),
  ...weightFormats.flatMap(conversionsFromHuggingFace),
  ...weightFormats.flatMap(conversionsToCheckpoints),
];

/** How each flag is written on a command line, including a placeholder for its value. */
const usages: Readonly<Record<string, string>> = {
  load: '--load DIR',
  loadHf: '--load-hf DIR',
  save: '--save DIR',
  saveHf: '--save-hf DIR',
  loadLora: '--load-lora DIR',
  saveLora: '--save-lora DIR',
  ckptStep: '--ckpt-step N',
  dtype: '--dtype NAME',
  vocabSize: '--vocab-size N',
  loadOptim: '--no-load-optim',
};

/** Returns the usage of a flag, or of the operand, in conversions of a format. */
function formatUsage(name: string, { name: format, path }: WeightFormat): string {
  if (name === 'to' || name === 'from') return `--${name} ${format}`;
  if (name === 'path') return path === 'DIR' ? 'DIRECTORY' : 'FILE';
  return usages[name]!;
}

/**
 * Returns true if a conversion has the format that --to and --from name. A flag that is not given matches
 * every format.
 */
const isOfFormat = ({ format }: Conversion, { to, from }: ConvertFlags): boolean =>
  [to, from].every((name) => name === undefined || name === format.name);

/**
 * Returns true if messages should omit a conversion, because the format's own flag selects the same
 * conversion.
 */
const isOtherSpelling = ({ format: { flags }, needs }: Conversion): boolean =>
  (needs.includes('to') && flags?.write !== undefined) ||
  (needs.includes('from') && flags?.read !== undefined);

/**
 * For each conversion that accepts all given flags, returns the flags that are missing. The conversion with
 * the fewest missing flags comes first. The list is empty if no conversion accepts all given flags.
 */
function missingOfConversions(given: readonly string[], flags: ConvertFlags): readonly (readonly string[])[] {
  const named = flags.to !== undefined || flags.from !== undefined;
  return conversions
    .filter((conversion) => isOfFormat(conversion, flags) && (named || !isOtherSpelling(conversion)))
    .filter(({ needs, allows }) => given.every((name) => needs.includes(name) || allows.includes(name)))
    .map(({ format, needs }) =>
      needs.filter((name) => !given.includes(name)).map((name) => formatUsage(name, format)),
    )
    .sort((a, b) => a.length - b.length);
}

/** Returns the flags with --outtype renamed to --dtype. */
function withOneDtype({ outtype, ...flags }: ConvertFlags): ConvertFlags {
  if (outtype === undefined) return flags;
  if (flags.dtype === undefined) return { ...flags, dtype: outtype };
  throw new ConfigurationError('MTL_FLAG_CONFLICT', 'mtl convert: --outtype is the same as --dtype', {
    remedy: 'pass --dtype alone',
  });
}

function checkDtype({ dtypes, name, severalDtypes }: WeightFormat, { dtype }: ConvertFlags): void {
  if (dtype === undefined) return;
  const asked = severalDtypes === true ? dtype.split(',') : [dtype];
  if (asked.every((one) => dtypes.includes(one)) && new Set(asked).size === asked.length) return;
  throw new ConfigurationError(
    'MTL_FLAG_CONFLICT',
    `mtl convert: --dtype ${dtype} is not written as ${name}`,
    {
      expected: `${severalDtypes === true ? 'some' : 'one'} of ${dtypes.join(', ')}`,
      remedy: 'choose from this list, or another format',
    },
  );
}

async function convert(
  path: string | undefined,
  { debug: _, ...stated }: ConvertFlags & { debug?: boolean },
): Promise<void> {
  const flags = withOneDtype(stated);
  // true is the default of flags such as --load-optim, so the value true does not prove that the user gave
  // the flag
  const words = Object.entries(flags).filter(([, value]) => value !== true && value !== undefined);
  const given = [...words.map(([name]) => name), ...(path === undefined ? [] : ['path'])];
  const selected = conversions.find(
    (conversion) =>
      isOfFormat(conversion, flags) &&
      conversion.needs.every((name) => given.includes(name)) &&
      given.every((name) => conversion.needs.includes(name) || conversion.allows.includes(name)),
  );
  if (selected !== undefined) {
    checkDtype(selected.format, flags);
    process.stdout.write(await selected.run(path ?? '', flags));
    return;
  }
  const missing = missingOfConversions(given, flags);
  if (missing.length > 0) {
    const ways = missing.map((words) => listedNames(words));
    throw new ConfigurationError('MTL_FLAG_REQUIRED', `mtl convert: missing ${ways.join('; or ')}`, {
      expected: 'flags that say what to convert and where to',
      remedy: 'pass them; mtl convert --help has an example of each conversion',
      details: { missing },
    });
  }
  const possible = conversions.filter((conversion) => !isOtherSpelling(conversion));
  throw new ConfigurationError('MTL_FLAG_CONFLICT', 'mtl convert: these flags do not select a conversion', {
    expected: possible
      .map(({ format, needs, allows }) =>
        [
          ...needs.map((name) => formatUsage(name, format)),
          ...allows.map((name) => `[${formatUsage(name, format)}]`),
        ].join(' '),
      )
      .join(', or '),
  });
}

/**
 * Returns a command that continues to train the model on the bundled corpus. The command works as printed,
 * and users may change its values.
 */
function adviceFor(begun: BegunCheckpoint, save: string): string {
  const { kind, tokenizer, vocabularySize, modelType } = begun;
  const program = `npm run ${kind}-train --`;
  const load = `--load ${quoted(resolve(save))}`;
  const isGpt2 = modelType === 'gpt2' && vocabularySize >= gpt2VocabularySize;
  if (tokenizer === undefined && !isGpt2) {
    return `it came without a tokenizer: train it on with ${program} ${load}, and name tokenizer and data`;
  }
  const own = tokenizer === undefined ? ' --tokenizer-type GPT2BPETokenizer' : '';
  // a short BERT sample may have no masked token, but a global batch needs at least one masked token
  const batch = `--micro-batch-size 1${kind === 'bert' ? ' --global-batch-size 8' : ''}`;
  const rest = `--data-path bundled ${batch} --lr 1e-5 --train-iters 100 --log-interval 10`;
  return `train it on with ${program} ${load}${own} ${rest}`;
}

/** The vocabulary size of the built-in GPT-2 tokenizer. */
const gpt2VocabularySize = 50_257;

/** Quotes a word for a shell. */
const quoted = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
