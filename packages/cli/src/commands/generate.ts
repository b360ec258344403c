import { readFileSync } from 'node:fs';
import { checkGeneration } from '@mtl/configuration/internal';
import { ConfigurationError } from '@mtl/errors';
import { generate, numTokensKept, TextStream } from '@mtl/inference';
import type { LoadedGpt } from '@mtl/runs';
import { defaultSampling } from '@mtl/runs/internal';
import type { Command } from 'commander';
import {
  addSamplingFlags,
  chooseSampling,
  loadModelOfFlags,
  type ModelFlagValues,
  missingModelOrDirectory,
  modelOperand,
  newModelCommand,
  requiredTokenizer,
  type SamplingFlagValues,
  withModelDirectory,
} from '../command-line/model-flags.js';
import { countOption } from '../command-line/option-values.js';
import {
  addSharingFlags,
  type SharingFlagValues,
  type SharingProcesses,
  sharingSizes,
  withSharingProcesses,
} from '../command-line/sharing-processes.js';
import { summaries } from './summaries.js';

type GenerateFlags = ModelFlagValues &
  SharingFlagValues &
  SamplingFlagValues & {
    readonly prompt?: string;
    readonly promptFile?: string;
    readonly numSamples: number;
    readonly maxNewTokens: number;
    readonly json?: true;
  };

const examples = `
Examples:
  mtl generate runs/shakespeare --prompt 'To be' --max-new-tokens 200 --temperature 1 --top-p 1
  mtl generate SmolLM2-135M --prompt-file letter.txt --num-samples 3 --top-p 0.9
  mtl run --nproc-per-node 2 mtl -- generate --load runs/large --tensor-model-parallel-size 2`;

/** Makes `mtl generate`, which continues a text and prints each piece as soon as it is generated. */
export function generateCommand(): Command {
  const command = addSharingFlags(newModelCommand('generate', summaries.generate))
    .argument(...modelOperand)
    .option('--prompt <text>', 'The text to continue. [a new text]')
    .option('--prompt-file <file>', 'A file that holds it, without its last line break.')
    .addOption(countOption('--num-samples <n>', 'Continuations, one after the other.').default(1))
    .addOption(countOption('--max-new-tokens <n>', 'Maximum number of tokens to add.').default(100));
  return addSamplingFlags(command, defaultSampling)
    .option('--json', 'Prints JSON, one object per sample.')
    .addHelpText('after', examples)
    .requires((flags: GenerateFlags, [directory]) => {
      checkPrompts(flags);
      checkGeneration(sharingSizes(flags));
      return missingModelOrDirectory(flags, directory);
    })
    .action(runGenerate);
}

async function runGenerate(directory: string | undefined, given: GenerateFlags): Promise<void> {
  const flags = withModelDirectory(given, directory);
  const prompt = readPrompt(flags);
  await withSharingProcesses(flags, (sharing) => continueTexts({ flags, prompt, sharing }));
}

/** Continues texts. Every process that shares the model takes part, and the first one prints the output. */
async function continueTexts(options: {
  readonly flags: GenerateFlags;
  readonly prompt: string;
  readonly sharing: SharingProcesses;
}): Promise<void> {
  const { flags, prompt, sharing } = options;
  const write = (text: string): void => {
    if (sharing.isFirst) process.stdout.write(text);
  };
  const loaded = await loadModelOfFlags(flags, sharing);
  try {
    if (sharing.isFirst) warnOfLongPrompt(encodedPrompt(prompt, loaded).length, loaded);
    const started = performance.now();
    let numTokens = 0;
    for (let sample = 0; sample < flags.numSamples; sample++) {
      if (flags.json !== true && flags.numSamples > 1) {
        write(`${sample === 0 ? '' : '\n'}--- sample ${sample + 1} of ${flags.numSamples}\n`);
      }
      numTokens += await continueText({ flags, prompt, loaded, sample, write });
    }
    if (!sharing.isFirst || process.stderr.isTTY !== true || flags.json === true) return;
    const seconds = (performance.now() - started) / 1000;
    process.stderr.write(`\n${numTokens} tokens, ${(numTokens / seconds).toFixed(1)} a second\n`);
  } finally {
    loaded.dispose();
  }
}

function checkPrompts({ prompt, promptFile }: GenerateFlags): void {
  if (prompt === undefined || promptFile === undefined) return;
  throw new ConfigurationError('MTL_FLAG_CONFLICT', '--prompt and --prompt-file are two prompts', {
    remedy: 'leave one of them out',
  });
}

function readPrompt({ prompt, promptFile }: GenerateFlags): string {
  if (promptFile === undefined) return prompt ?? '';
  try {
    return readFileSync(promptFile, 'utf8').replace(/\r?\n$/, '');
  } catch (error) {
    throw new ConfigurationError(
      'MTL_PROMPT_FILE',
      `--prompt-file ${promptFile}: ${(error as Error).message}`,
      {
        expected: 'a text file',
        cause: error,
      },
    );
  }
}

function encodedPrompt(prompt: string, loaded: LoadedGpt): readonly number[] {
  const tokenizer = requiredTokenizer(loaded);
  return [...(tokenizer.startIds ?? []), ...tokenizer.encode(prompt)];
}

/** Warns if a prompt is longer than the model's context, because the model then sees only its end. */
function warnOfLongPrompt(numTokens: number, { model }: LoadedGpt): void {
  const { maximumContext } = model;
  if (numTokens <= maximumContext) return;
  process.stderr.write(
    `warning[MTL_CONTEXT]: the prompt has ${numTokens} tokens, the context of the model is ${maximumContext}: ` +
      `the text goes on from the last ${numTokensKept(maximumContext)} tokens of the prompt; shorten it, or take a model with a longer context\n`,
  );
}

/** Prints one continuation, and returns the number of its tokens. */
async function continueText(options: {
  readonly flags: GenerateFlags;
  readonly prompt: string;
  readonly loaded: LoadedGpt;
  readonly sample: number;
  readonly write: (text: string) => void;
}): Promise<number> {
  const { flags, prompt, loaded, sample, write } = options;
  const tokenizer = requiredTokenizer(loaded);
  const encoded = encodedPrompt(prompt, loaded);
  const ends = new Set(loaded.endTokens);
  const text = new TextStream((tokens) => tokenizer.decode(tokens));
  const chunks: string[] = [];
  const tokens: number[] = [];
  const emit = (chunk: string): void => {
    if (flags.json === true) chunks.push(chunk);
    else write(chunk);
  };
  if (flags.json !== true) write(prompt);
  let reason: string | undefined;
  const { seed, maxNewTokens } = flags;
  for await (const { token, finishReason } of generate({
    model: loaded.model,
    // with an empty prompt, a new text begins after the token that ends a text
    prompts: [encoded.length === 0 ? [loaded.endTokens[0] ?? tokenizer.eod] : encoded],
    maxNewTokens,
    sampling: chooseSampling(flags),
    seed,
    sampleNumbers: [sample],
    stopTokens: loaded.endTokens,
    whenContextIsFull: 'slide',
  })) {
    tokens.push(token);
    reason = finishReason;
    if (!ends.has(token)) emit(text.push(token));
  }
  emit(text.end());
  if (flags.json === true) {
    const result = { sample, prompt, text: chunks.join(''), tokens, finishReason: reason };
    write(`${JSON.stringify(result)}\n`);
  } else {
    write('\n');
  }
  return tokens.length;
}
