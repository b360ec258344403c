import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import type { ChatMessage, ChatTemplate } from '@mtl/chat-templates';
import { chatTokens, readChatTemplate } from '@mtl/data/conversations';
import { DataError, formatError, MtlError } from '@mtl/errors';
import { type GenerateOptions, generate, type Sampling, TextStream } from '@mtl/inference';
import { listStopTokens } from '@mtl/runs/internal';
import type { Tokenizer, TokenizerOptions } from '@mtl/tokenizers';
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
import { summaries } from './summaries.js';

type ChatFlags = ModelFlagValues &
  SamplingFlagValues & {
    readonly system?: string;
    readonly chatTemplate?: string;
    readonly maxNewTokens: number;
  };

const notes = `
A line is a message. Ctrl-C stops an answer; a second one, or the end of the input (Ctrl-D), ends the conversation. When
the conversation outgrows the model's context, its oldest turns are dropped, and a notice tells.

Examples:
  mtl chat runs/chat --system 'Answer in one sentence.'
  printf 'Hello\\nWho are you?\\n' | mtl chat SmolLM2-135M-Instruct --temperature 0`;

/** Creates the command `mtl chat`, a conversation with a model in the terminal. */
export function chatCommand(): Command {
  const command = newModelCommand('chat', summaries.chat)
    .argument(...modelOperand)
    .option('--system <text>', 'The system message that begins the conversation.')
    .option('--chat-template <file>', "A chat template in Jinja. [the tokenizer's]")
    .addOption(countOption('--max-new-tokens <n>', 'Maximum number of tokens of an answer.').default(512));
  return addSamplingFlags(command, { temperature: 0.7, topP: 0.95 })
    .addHelpText('after', notes)
    .requires((flags: ChatFlags, [directory]) => missingModelOrDirectory(flags, directory))
    .action(runChat);
}

async function runChat(directory: string | undefined, flags: ChatFlags): Promise<void> {
  const loaded = await loadModelOfFlags(withModelDirectory(flags, directory));
  const onNotice = (text: string): void => void process.stderr.write(`${text}\n`);
  try {
    const own = requiredTokenizer(loaded);
    const { chatTemplate, system, maxNewTokens, seed } = flags;
    const options =
      chatTemplate === undefined ? own.options : ({ ...own.options, chatTemplate } as TokenizerOptions);
    const tokenizer = { ...own, options };
    const template = readChatTemplate(tokenizer);
    const session = new ChatSession({
      model: loaded.model,
      tokenizer,
      template,
      stopTokens: listStopTokens(template, { tokenizer, endTokens: loaded.endTokens }),
      system,
      sampling: chooseSampling(flags),
      maxNewTokens,
      seed,
      onNotice,
    });
    const { stdin: input, stdout: output } = process;
    process.exitCode = await converse({ session, input, output, onNotice });
  } finally {
    loaded.dispose();
  }
}

export interface ConverseOptions {
  readonly session: Pick<ChatSession, 'say'>;
  /** The input: a terminal, or a pipe with a message on each line. */
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly output: NodeJS.WritableStream;
  /** Receives errors that end a turn, but not the conversation. */
  readonly onNotice: (text: string) => void;
}

/**
 * Holds a conversation line by line until the input ends. Ctrl-C (SIGINT) ends the current answer, or the
 * conversation if no answer is being generated.
 *
 * @returns the exit status: 0, or 130 when SIGINT ended the conversation
 */
export async function converse(options: ConverseOptions): Promise<number> {
  const { input, output } = options;
  const isTerminal = input.isTTY === true;
  const lines = createInterface({
    input,
    terminal: isTerminal,
    ...(isTerminal ? { output, prompt: '> ' } : {}),
  });
  let answering: AbortController | undefined;
  let status = 0;
  const interrupt = (): void => {
    if (answering !== undefined && !answering.signal.aborted) {
      answering.abort();
      return;
    }
    status = 128 + constants.signals.SIGINT;
    lines.close();
  };
  process.on('SIGINT', interrupt);
  // in raw mode a terminal sends no signal, so readline reports Ctrl-C
  lines.on('SIGINT', interrupt);
  try {
    if (isTerminal) lines.prompt();
    for await (const line of lines) {
      if (line.trim() !== '') {
        answering = new AbortController();
        await answer(options, { line, signal: answering.signal });
        answering = undefined;
      }
      if (status !== 0) break;
      if (isTerminal) lines.prompt();
    }
  } finally {
    process.off('SIGINT', interrupt);
    lines.close();
  }
  if (isTerminal) output.write('\n');
  return status;
}

/** Writes one answer. An error in this turn leaves the conversation unchanged. */
async function answer(
  { session, output, onNotice }: ConverseOptions,
  { line, signal }: { readonly line: string; readonly signal: AbortSignal },
): Promise<void> {
  try {
    for await (const part of session.say(line, signal)) output.write(part);
    output.write('\n');
  } catch (error) {
    if (signal.aborted) {
      output.write('\n');
      return;
    }
    if (!MtlError.isInstance(error) || error.exitCode !== 2) throw error;
    onNotice(formatError(error));
  }
}

export interface ChatSessionOptions {
  readonly model: GenerateOptions['model'];
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate;
  /** Ids of the tokens that end an answer. They are not printed. */
  readonly stopTokens: readonly number[];
  /** The message with the role `system` that begins the conversation. */
  readonly system?: string | undefined;
  readonly sampling: Sampling;
  readonly maxNewTokens: number;
  readonly seed: number;
  /** Receives a notice when messages had to be dropped. */
  readonly onNotice: (text: string) => void;
}

/**
 * A conversation with a model. The prompt contains only the newest messages that fit into the model's
 * context.
 */
export class ChatSession {
  readonly #options: ChatSessionOptions;
  /** The messages that still fit into the model's context. */
  readonly #messages: ChatMessage[];
  #numTurns = 0;

  constructor(options: ChatSessionOptions) {
    this.#options = options;
    this.#messages = options.system === undefined ? [] : [{ role: 'system', content: options.system }];
  }

  /**
   * Sends a message to the model, and yields parts of the answer as they are generated. After an abort, the
   * conversation keeps the generated part.
   *
   * @throws DataError MTL_CONTEXT for a message that alone fills the context, or MTL_CHAT_TEMPLATE; the
   *   message is then not added to the conversation. If `signal` is aborted, throws the signal's reason
   */
  async *say(content: string, signal: AbortSignal): AsyncGenerator<string, void, undefined> {
    const { model, tokenizer, stopTokens, sampling, maxNewTokens, seed } = this.#options;
    const prompt = this.#promptWith({ role: 'user', content });
    const stream = new TextStream((tokens) => tokenizer.decode(tokens));
    let answer = '';
    try {
      const tokens = generate({
        model,
        sampling,
        seed,
        stopTokens,
        signal,
        prompts: [prompt],
        maxNewTokens,
        sampleNumbers: [this.#numTurns],
        logProbabilities: false,
      });
      for await (const { token } of tokens) {
        const part = stopTokens.includes(token) ? '' : stream.push(token);
        answer += part;
        if (part !== '') yield part;
      }
      const rest = stream.end();
      answer += rest;
      if (rest !== '') yield rest;
    } finally {
      this.#numTurns += 1;
      this.#messages.push({ role: 'assistant', content: answer });
    }
  }

  /**
   * Returns the tokens of the conversation with a new message. Drops the oldest turns if the conversation is
   * too long.
   */
  #promptWith(message: ChatMessage): readonly number[] {
    const { model, maxNewTokens, onNotice } = this.#options;
    const kept = [...this.#messages, message];
    const first = kept[0]!.role === 'system' ? 1 : 0;
    // at most a quarter of the context is reserved for the answer
    const most = model.maximumContext - Math.min(maxNewTokens, Math.ceil(model.maximumContext / 4));
    let prompt = this.#encodeMessages(kept);
    let numDropped = 0;
    while (prompt.length > most) {
      // a question is dropped together with its answer
      const next = kept.findIndex(({ role }, index) => index > first && role === 'user');
      if (next < 0) {
        throw new DataError('MTL_CONTEXT', `the message and what precedes it have ${prompt.length} tokens`, {
          expected: `at most ${most}, of ${model.maximumContext} that the model sees`,
          remedy: 'say it in fewer words',
        });
      }
      numDropped += kept.splice(first, next - first).length;
      prompt = this.#encodeMessages(kept);
    }
    if (numDropped > 0)
      onNotice(`the first ${numDropped} messages no longer fit into ${model.maximumContext} tokens: dropped`);
    this.#messages.splice(0, this.#messages.length, ...kept);
    return prompt;
  }

  #encodeMessages(messages: readonly ChatMessage[]): readonly number[] {
    const { template, tokenizer } = this.#options;
    const { text } = template.render({ messages, addsGenerationPrompt: true, where: 'the conversation' });
    return Array.from(chatTokens(tokenizer, text));
  }
}
