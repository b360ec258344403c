import { resolve } from 'node:path';
import type { OptionsOf } from '@mtl/configuration';
import { conversionFlags } from '@mtl/configuration/internal';
import { ConfigurationError, listedNames } from '@mtl/errors';
import {
  type BegunCheckpoint,
  checkpointToHuggingFace,
  checkpointToLora,
  checkpointToMegatron,
  huggingFaceToCheckpoint,
  megatronToCheckpoint,
  mergeLora,
} from '@mtl/runs';
import type { Command } from 'commander';
import { addFlags } from '../command-line/flag-options.js';
import { newCommand } from '../command-line/new-command.js';
import { choiceOption } from '../command-line/option-values.js';
import { summaries } from './summaries.js';

type WritableDtype = (typeof storedDtypes)[keyof typeof storedDtypes];

/** The types that weights can be stored as, and their names in safetensors. */
const storedDtypes = { float32: 'F32', bfloat16: 'BF16', float16: 'F16' } as const;

type ConvertFlags = OptionsOf<typeof conversionFlags> & {
  readonly from?: string;
  readonly to?: string;
  readonly dtype?: keyof typeof storedDtypes;
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
                                                     (as torch_dist; Megatron-LM loads it with --no-load-optim --no-load-rng)`;

/**
 * `mtl convert`: between checkpoints of training runs, directories of the transformers library and
 * Megatron-LM.
 */
export function convertCommand(): Command {
  const command = newCommand('convert', summaries.convert).argument(
    '[directory]',
    'A directory of the other program: with --from what to convert, with --to where to; new or empty.',
  );
  return addFlags(command, conversionFlags)
    .addOption(
      choiceOption(
        '--dtype <name>',
        'Data type of the stored weights. [as in the directory that the model came from, else float32]',
        Object.keys(storedDtypes),
      ),
    )
    .addOption(choiceOption('--from <format>', 'Converts a checkpoint of another program.', ['megatron']))
    .addOption(choiceOption('--to <format>', 'Writes the weights for another program.', ['megatron']))
    .option('--no-load-optim', 'Takes only the weights, with --from, and begins at iteration 0.')
    .addHelpText('after', examples)
    .action(convert);
}

/** A conversion by the flags that select it. */
interface Conversion {
  readonly needs: readonly string[];
  readonly allows: readonly string[];
  run(directory: string, flags: ConvertFlags): Promise<string>;
}

const onNotice = (notice: string): void => void process.stderr.write(`${notice}\n`);

/** Returns the name that --dtype takes for a data type of safetensors. */
const nameOf = (stored: WritableDtype): string =>
  Object.entries(storedDtypes).find(([, name]) => name === stored)![0];

const conversions: readonly Conversion[] = [
  {
    needs: ['load', 'saveHf'],
    allows: ['ckptStep', 'dtype'],
    run: async (_, { load, saveHf, ckptStep, dtype }) => {
      const converted = await checkpointToHuggingFace({
        load: load!,
        checkpointStep: ckptStep,
        directory: saveHf!,
        dtype: dtype && storedDtypes[dtype],
        onNotice,
      });
      return `${converted.path} -> ${saveHf} (${nameOf(converted.dtype)})\n`;
    },
  },
  {
    needs: ['load', 'saveLora'],
    allows: ['ckptStep'],
    run: async (_, { load, saveLora, ckptStep }) => {
      const checkpoint = { load: load!, checkpointStep: ckptStep, directory: saveLora!, onNotice };
      return `${await checkpointToLora(checkpoint)} -> ${saveLora}\n`;
    },
  },
  {
    needs: ['loadHf', 'saveHf', 'loadLora'],
    allows: ['dtype'],
    run: async (_, { loadHf, saveHf, loadLora, dtype }) => {
      const model = { loadHuggingFace: loadHf!, loadLora: loadLora!, directory: saveHf!, onNotice };
      const stored = await mergeLora({ ...model, dtype: dtype && storedDtypes[dtype] });
      return `${loadHf} with ${loadLora} -> ${saveHf} (${nameOf(stored)})\n`;
    },
  },
  {
    needs: ['loadHf', 'save'],
    allows: [],
    run: async (_, { loadHf, save }) => {
      const begun = await huggingFaceToCheckpoint({ loadHuggingFace: loadHf!, directory: save!, onNotice });
      return `${loadHf} -> ${begun.path}\n${adviceFor(begun, save!)}\n`;
    },
  },
  {
    needs: ['from', 'directory', 'save'],
    allows: ['ckptStep', 'vocabSize', 'loadOptim'],
    run: async (megatron, { save, ckptStep, vocabSize, loadOptim }) => {
      const begun = await megatronToCheckpoint({
        megatron,
        step: ckptStep,
        vocabularySize: vocabSize,
        loadOptimizer: loadOptim,
        directory: save!,
        onNotice,
      });
      return `${begun.source} -> ${begun.path}\n${adviceFor(begun, save!)}\n`;
    },
  },
  {
    needs: ['load', 'to', 'directory'],
    allows: ['ckptStep', 'dtype'],
    run: async (directory, { load, ckptStep, dtype }) => {
      const { path, written } = await checkpointToMegatron({
        load: load!,
        checkpointStep: ckptStep,
        directory,
        dtype: dtype && storedDtypes[dtype],
        onNotice,
      });
      return `${path} -> ${written} (${dtype ?? 'float32'})\n`;
    },
  },
];

/** The usage of each flag, and of the operand, on a command line. */
const usages: Readonly<Record<string, string>> = {
  load: '--load DIR',
  loadHf: '--load-hf DIR',
  from: '--from megatron',
  to: '--to megatron',
  save: '--save DIR',
  saveHf: '--save-hf DIR',
  loadLora: '--load-lora DIR',
  saveLora: '--save-lora DIR',
  directory: 'DIRECTORY',
};

/**
 * Lists, for each conversion that takes all given flags, the flags it still needs, the conversion with the
 * fewest first; empty if no conversion takes all given flags.
 */
function missingOfConversions(given: readonly string[]): readonly (readonly string[])[] {
  return conversions
    .filter(({ needs, allows }) => given.every((name) => needs.includes(name) || allows.includes(name)))
    .map(({ needs }) => needs.filter((name) => !given.includes(name)).map((name) => usages[name]!))
    .sort((a, b) => a.length - b.length);
}

async function convert(
  directory: string | undefined,
  { debug: _, ...flags }: ConvertFlags & { debug?: boolean },
): Promise<void> {
  // the value is true without --no-load-optim
  const words = Object.entries(flags).filter(([, value]) => value !== true);
  const given = [...words.map(([name]) => name), ...(directory === undefined ? [] : ['directory'])];
  const selected = conversions.find(
    ({ needs, allows }) =>
      needs.every((name) => given.includes(name)) &&
      given.every((name) => needs.includes(name) || allows.includes(name)),
  );
  if (selected !== undefined) {
    process.stdout.write(await selected.run(directory ?? '', flags));
    return;
  }
  const missing = missingOfConversions(given);
  if (missing.length > 0) {
    const ways = missing.map((words) => listedNames(words));
    throw new ConfigurationError('MTL_FLAG_REQUIRED', `mtl convert: missing ${ways.join('; or ')}`, {
      expected: 'flags that say what to convert and where to',
      remedy: 'pass them; mtl convert --help has an example of each conversion',
      details: { missing },
    });
  }
  throw new ConfigurationError('MTL_FLAG_CONFLICT', 'mtl convert: these flags do not select a conversion', {
    expected:
      '--load DIR --save-hf DIR [--ckpt-step N] [--dtype NAME], --load-hf DIR --save DIR, ' +
      '--load DIR --save-lora DIR [--ckpt-step N], --load-hf DIR --load-lora DIR --save-hf DIR [--dtype NAME], ' +
      '--from megatron DIR --save DIR [--ckpt-step N] [--vocab-size N] [--no-load-optim], ' +
      'or --load DIR --to megatron DIR [--ckpt-step N] [--dtype NAME]',
  });
}

/**
 * Returns a command that continues to train the model, on the bundled corpus. It works as printed; users may
 * change its values.
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
  // a short sample of a BERT may have no masked token, and a global batch needs one
  const batch = `--micro-batch-size 1${kind === 'bert' ? ' --global-batch-size 8' : ''}`;
  const rest = `--data-path bundled ${batch} --lr 1e-5 --train-iters 100 --log-interval 10`;
  return `train it on with ${program} ${load}${own} ${rest}`;
}

/** The vocabulary size of the built-in tokenizer. */
const gpt2VocabularySize = 50_257;

/** Quotes a word for a shell. */
const quoted = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
