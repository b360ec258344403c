import { resolve } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import {
  type BegunCheckpoint,
  checkpointToHuggingFace,
  checkpointToLora,
  huggingFaceToCheckpoint,
  mergeLora,
} from '@mtl/recipes';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { choiceOption, countOption } from '../../command-line/option-values.js';

type WritableDtype = (typeof storedDtypes)[keyof typeof storedDtypes];

/** What weights can be stored as, and what safetensors calls it. */
const storedDtypes = { float32: 'F32', bfloat16: 'BF16', float16: 'F16' } as const;

interface ConvertFlags {
  readonly load?: string;
  readonly ckptStep?: number;
  readonly loadHf?: string;
  readonly save?: string;
  readonly saveHf?: string;
  readonly loadLora?: string;
  readonly saveLora?: string;
  readonly dtype?: keyof typeof storedDtypes;
}

const examples = `
Examples:
  mtl convert --load runs/shakespeare --save-hf shakespeare-hf
  mtl convert --load-hf gpt2 --save runs/gpt2        (prints the command that continues training)
  mtl convert --load runs/bert --save-hf bert-hf     (BERTs with layer norm after sublayers: transformers has no others)
  mtl convert --load runs/lora --save-lora adapters  (of a run with --lora-rank, as PEFT loads them)
  mtl convert --load-hf smollm --load-lora adapters --save-hf merged`;

/** `mtl convert`: between checkpoints of a training run and directories of the transformers library. */
export function convertCommand(): Command {
  return newCommand('convert', 'convert a checkpoint to a Hugging Face directory, or back')
    .option('--load <dir>', 'checkpoints of a training run: the directory of its --save')
    .addOption(
      countOption('--ckpt-step <n>', 'the iteration (default: the newest complete checkpoint)', { least: 0 }),
    )
    .option('--save-hf <dir>', 'the Hugging Face directory to write; new or empty')
    .addOption(
      choiceOption(
        '--dtype <name>',
        'data type of the stored weights (default: that of the directory that the model came from, else float32)',
        Object.keys(storedDtypes),
      ),
    )
    .option(
      '--load-hf <dir>',
      'a directory of the transformers library: GPT-2, Llama, Mistral, Qwen2, Qwen3 or BERT',
    )
    .option('--save <dir>', 'directory of checkpoints to create, with iteration 0')
    .option(
      '--load-lora <dir>',
      'adapters that PEFT or --save-lora wrote, to merge into the model of --load-hf',
    )
    .option('--save-lora <dir>', 'the directory to write the adapters of a checkpoint to; new or empty')
    .addHelpText('after', examples)
    .action(convert);
}

/** The flags that select a conversion, in the order of `ConvertFlags`. */
const places = ['load', 'loadHf', 'save', 'saveHf', 'loadLora', 'saveLora'] as const;

async function convert(flags: ConvertFlags): Promise<void> {
  const { load, loadHf, save, saveHf, loadLora, saveLora, ckptStep, dtype } = flags;
  const onNotice = (notice: string): void => void process.stderr.write(`${notice}\n`);
  const write = (text: string): void => void process.stdout.write(`${text}\n`);
  const storedDtype = dtype && storedDtypes[dtype];
  switch (places.filter((name) => flags[name] !== undefined).join(' ')) {
    case 'load saveHf': {
      const checkpoint = { load: load!, checkpointStep: ckptStep, directory: saveHf!, onNotice };
      const converted = await checkpointToHuggingFace({ ...checkpoint, dtype: storedDtype });
      return write(`${converted.path} -> ${saveHf} (${nameOf(converted.dtype)})`);
    }
    case 'load saveLora': {
      if (dtype !== undefined) break;
      const checkpoint = { load: load!, checkpointStep: ckptStep, directory: saveLora!, onNotice };
      return write(`${await checkpointToLora(checkpoint)} -> ${saveLora}`);
    }
    case 'loadHf saveHf loadLora': {
      if (ckptStep !== undefined) break;
      const model = { loadHuggingFace: loadHf!, loadLora: loadLora!, directory: saveHf!, onNotice };
      const stored = await mergeLora({ ...model, dtype: storedDtype });
      return write(`${loadHf} with ${loadLora} -> ${saveHf} (${nameOf(stored)})`);
    }
    case 'loadHf save': {
      if (ckptStep !== undefined || dtype !== undefined) break;
      const begun = await huggingFaceToCheckpoint({ loadHuggingFace: loadHf!, directory: save!, onNotice });
      return write(`${loadHf} -> ${begun.path}\n${adviceFor(begun, save!)}`);
    }
  }
  throw new ConfigurationError('MTL_FLAG_CONFLICT', 'mtl convert: these flags do not select a conversion', {
    expected:
      '--load DIR --save-hf DIR [--ckpt-step N] [--dtype NAME], --load-hf DIR --save DIR, ' +
      '--load DIR --save-lora DIR [--ckpt-step N], or --load-hf DIR --load-lora DIR --save-hf DIR [--dtype NAME]',
  });
}

/** Of a data type of safetensors, the name that --dtype takes. */
const nameOf = (stored: WritableDtype): string =>
  Object.entries(storedDtypes).find(([, name]) => name === stored)![0];

/**
 * A command that trains it on as it is printed, on the bundled corpus; its values are there to be changed.
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

/** Of the tokenizer that is built in. */
const gpt2VocabularySize = 50_257;

/** As a shell takes it. */
const quoted = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
