import { availableParallelism } from 'node:os';
import type { TokenizerOptions } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import { type Device, type DType, setNumThreads } from '@mtl/kernels';
import { type LoadedGpt, loadGptForInference } from '@mtl/recipes';
import type { MissingWord } from './missing-words.js';
import { type MtlCommand, newCommand } from './new-command.js';
import { choiceOption, countOption } from './option-values.js';
import { alone, type SharingProcesses } from './sharing-processes.js';
import { addTokenizerFlags, type TokenizerFlagValues, tokenizerOfFlags } from './tokenizer-flags.js';

/** Values of the options of `newModelCommand`. */
export interface ModelFlagValues extends TokenizerFlagValues {
  readonly load?: string;
  readonly ckptStep?: number;
  readonly loadHf?: string;
  readonly loadLora?: string;
  readonly device: Device;
  readonly threads?: number;
  readonly bf16?: true;
  readonly fp16?: true;
}

/** A new command with the flags that name a trained model and how it computes. */
export function newModelCommand(name: string, description: string): MtlCommand {
  const command = newCommand(name, description)
    .option('--load <dir>', 'Checkpoints of a training run: the directory of its --save.')
    .addOption(
      countOption('--ckpt-step <n>', 'The iteration. [the newest complete checkpoint]', { least: 0 }),
    )
    .option(
      '--load-hf <dir>',
      'A directory of the transformers library: GPT-2, Llama, Mistral, Qwen2 or Qwen3.',
    )
    .option(
      '--load-lora <dir>',
      'Low-rank adapters of that model, as PEFT or --save-lora wrote them; merged when it is loaded.',
    )
    .addOption(choiceOption('--device <name>', 'Where the model computes.', ['cpu', 'cuda']).default('cpu'))
    .addOption(
      countOption('--threads <n>', "Threads of the kernels. [the process's share of the host's cores]"),
    )
    .option('--bf16', 'Computes in bfloat16. [float32]')
    .option('--fp16', 'Computes in float16.');
  return addTokenizerFlags(command);
}

/** The flag that names a model, where none does. */
export function missingModel({ load, loadHf }: Partial<ModelFlagValues>): readonly MissingWord[] {
  if (load !== undefined || loadHf !== undefined) return [];
  return [{ name: '--load (or --load-hf)', usage: '--load DIR' }];
}

/**
 * Loads the model that the flags name; what is worth hearing goes to standard error.
 *
 * @param sharing the processes that share it; default: this one alone
 */
export async function loadModelOfFlags(
  flags: ModelFlagValues,
  { processes, numLocal, isFirst }: SharingProcesses = alone,
): Promise<LoadedGpt> {
  if (flags.bf16 === true && flags.fp16 === true) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', '--bf16 and --fp16: a model computes in one of them', {
      remedy: 'leave one of them out',
    });
  }
  const dtype: DType = flags.bf16 === true ? 'bfloat16' : flags.fp16 === true ? 'float16' : 'float32';
  setNumThreads(flags.threads ?? Math.max(1, Math.floor(availableParallelism() / numLocal)), {
    // processes of a host would all pin theirs to the same cores
    pin: numLocal === 1,
  });
  return await loadGptForInference({
    load: flags.load,
    checkpointStep: flags.ckptStep,
    loadHuggingFace: flags.loadHf,
    loadLora: flags.loadLora,
    device: flags.device,
    dtype,
    tokenizer: tokenizerOfFlags(flags) as TokenizerOptions | undefined,
    processes,
    onNotice: (notice) => {
      if (isFirst) process.stderr.write(`${notice}\n`);
    },
  });
}
