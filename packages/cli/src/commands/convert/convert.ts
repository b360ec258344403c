import { ConfigurationError } from '@mtl/errors';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { choiceOption, countOption } from '../../command-line/option-values.js';
import { convertToCheckpoint } from './convert-to-checkpoint.js';
import { convertToHuggingFace, type StoredDtype, storedDtypes } from './convert-to-hugging-face.js';

interface ConvertFlags {
  readonly load?: string;
  readonly ckptStep?: number;
  readonly loadHf?: string;
  readonly save?: string;
  readonly saveHf?: string;
  readonly dtype?: StoredDtype;
}

const examples = `
Examples:
  mtl convert --load runs/shakespeare --save-hf shakespeare-hf
  mtl convert --load-hf gpt2 --save runs/gpt2        (then train with --load runs/gpt2)`;

/** `mtl convert`: between checkpoints of a training and directories of the transformers library. */
export function convertCommand(): Command {
  return newCommand('convert', 'convert a checkpoint to a Hugging Face directory, or back')
    .option('--load <dir>', 'checkpoints of a training: what --save named')
    .addOption(
      countOption('--ckpt-step <n>', 'the iteration (default: the newest whole checkpoint)', { least: 0 }),
    )
    .option('--save-hf <dir>', 'the Hugging Face directory to write; new or empty')
    .addOption(
      choiceOption('--dtype <name>', 'what its weights are stored as (default: float32)', storedDtypes),
    )
    .option('--load-hf <dir>', 'a GPT-2 directory of the transformers library')
    .option('--save <dir>', 'the directory of checkpoints to begin, with iteration 0')
    .addHelpText('after', examples)
    .action(convert);
}

async function convert({ load, loadHf, save, saveHf, ckptStep, dtype }: ConvertFlags): Promise<void> {
  const onNotice = (notice: string): void => void process.stderr.write(`${notice}\n`);
  if (load !== undefined && saveHf !== undefined && loadHf === undefined && save === undefined) {
    await convertToHuggingFace({
      load,
      checkpointStep: ckptStep,
      directory: saveHf,
      dtype: dtype ?? 'float32',
      onNotice,
    });
    return;
  }
  const isBack = loadHf !== undefined && save !== undefined && load === undefined && saveHf === undefined;
  if (isBack && ckptStep === undefined && dtype === undefined) {
    await convertToCheckpoint({ loadHuggingFace: loadHf, directory: save, onNotice });
    return;
  }
  throw new ConfigurationError(
    'MTL_FLAG_CONFLICT',
    'mtl convert: these flags do not name one way to convert',
    {
      expected: '--load DIR --save-hf DIR [--ckpt-step N] [--dtype NAME], or --load-hf DIR --save DIR',
    },
  );
}
