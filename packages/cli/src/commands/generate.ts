import { readFileSync } from 'node:fs';
import { checkGeneration } from '@mtl/configuration/strategies';
import { ConfigurationError } from '@mtl/errors';
import { type FinishReason, generate, numTokensKept, TextStream } from '@mtl/inference';
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

/**
 * Creates the command `mtl generate`, which continues a text and prints each part as soon as it is generated.
 */
export function generateCommand(): Command {
  const command = addSharingFlags(newModelCommand('generate', summaries.generate))
    .argument(...modelOperand)
    .option('--prompt <text>', 'The text to continue. [a new text]')
    .option('--prompt-file <file>', 'A file that holds it, without its last line break.')
    .addOption(
      countOption(
        '--num-samples <n>',
        'Continuations, computed together and written one after the other.',
      ).default(1),
    )
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

/**
 * Continues texts. Every process that shares the model takes part, and the first process writes the output.
 */
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
    const numTokens = await writeSamples({ flags, prompt, loaded, write });
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
    remedy: 'leave out one',
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

/** Warns if a prompt is longer than the context, because the model then reads only the prompt's end. */
function warnOfLongPrompt(numTokens: number, { model }: LoadedGpt): void {
  const { maximumContext } = model;
  if (numTokens <= maximumContext) return;
  process.stderr.write(
    `warning[MTL_CONTEXT]: the prompt has ${numTokens} tokens, the context of the model is ${maximumContext}: ` +
      `the text goes on from the last ${numTokensKept(maximumContext)} tokens of the prompt; shorten it, or take a model with a longer context\n`,
  );
}

/**
 * The maximum number of samples that are computed together. Each sample has its own keys and values in
 * memory.
 */
const mostSamplesAtOnce = 16;

interface WriteSamplesOptions {
  readonly flags: GenerateFlags;
  readonly prompt: string;
  readonly loaded: LoadedGpt;
  readonly write: (text: string) => void;
}

/**
 * Computes the samples together and writes them in order. Tokens of the first unfinished sample are written
 * immediately; other samples wait for their turn. Returns the number of tokens.
 */
async function writeSamples(options: WriteSamplesOptions): Promise<number> {
  const { flags, prompt, loaded } = options;
  const tokenizer = requiredTokenizer(loaded);
  const encoded = encodedPrompt(prompt, loaded);
  // an empty prompt is treated as the end of an earlier text, after which a new text begins
  const tokens = encoded.length === 0 ? [loaded.endTokens[0] ?? tokenizer.eod] : encoded;
  let numTokens = 0;
  for (let first = 0; first < flags.numSamples; first += mostSamplesAtOnce) {
    const length = Math.min(mostSamplesAtOnce, flags.numSamples - first);
    const sampleNumbers = Array.from({ length }, (_, index) => first + index);
    const samples = sampleNumbers.map((number) => new WrittenSample(number, options));
    let turn = 0;
    samples[0]!.begin();
    for await (const { sequence, token, finishReason } of generate({
      model: loaded.model,
      prompts: sampleNumbers.map(() => tokens),
      maxNewTokens: flags.maxNewTokens,
      sampling: chooseSampling(flags),
      seed: flags.seed,
      sampleNumbers,
      stopTokens: loaded.endTokens,
      whenContextIsFull: 'slide',
      logProbabilities: false,
    })) {
      numTokens += 1;
      samples[sequence]!.add(token, finishReason);
      while (samples[turn]?.isFinished === true) samples[++turn]?.begin();
    }
  }
  return numTokens;
}

/**
 * Writes the text of one sample of a prompt. The text is buffered until the earlier samples are finished.
 * Afterwards, new tokens are written immediately.
 */
class WrittenSample {
  readonly #number: number;
  readonly #options: WriteSamplesOptions;
  readonly #text: TextStream;
  readonly #tokens: number[] = [];
  #completion = '';
  /** How many UTF-16 units of the completion have been written. */
  #numWritten = 0;
  #hasBegun = false;
  #finishReason: FinishReason | undefined;

  constructor(number: number, options: WriteSamplesOptions) {
    this.#number = number;
    this.#options = options;
    const tokenizer = requiredTokenizer(options.loaded);
    this.#text = new TextStream((tokens) => tokenizer.decode(tokens));
  }

  get isFinished(): boolean {
    return this.#finishReason !== undefined;
  }

  /** Writes the buffered text. From now on, the sample writes each token immediately. */
  begin(): void {
    const { flags, prompt, write } = this.#options;
    this.#hasBegun = true;
    if (flags.json !== true && flags.numSamples > 1)
      write(`${this.#number === 0 ? '' : '\n'}--- sample ${this.#number + 1} of ${flags.numSamples}\n`);
    if (flags.json !== true) write(prompt);
    this.#write();
  }

  add(token: number, finishReason: FinishReason | undefined): void {
    this.#tokens.push(token);
    if (!this.#options.loaded.endTokens.includes(token)) this.#completion += this.#text.push(token);
    if (finishReason !== undefined) this.#completion += this.#text.end();
    this.#finishReason = finishReason;
    if (this.#hasBegun) this.#write();
  }

  #write(): void {
    const { flags, prompt, write } = this.#options;
    if (flags.json !== true) {
      write(this.#completion.slice(this.#numWritten));
      this.#numWritten = this.#completion.length;
      if (this.isFinished) write('\n');
    } else if (this.isFinished) {
      const [sample, tokens, finishReason] = [this.#number, this.#tokens, this.#finishReason];
      write(`${JSON.stringify({ sample, prompt, text: this.#completion, tokens, finishReason })}\n`);
    }
  }
}
