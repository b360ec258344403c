import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import { formatError, MtlError } from '@mtl/errors';
import type { ChatSession } from './chat-session.js';

export interface ConverseOptions {
  readonly session: Pick<ChatSession, 'say'>;
  /** Where lines come from: a terminal, or a pipe with a message on each line. */
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly output: NodeJS.WritableStream;
  /** For errors that end a turn, not the conversation. */
  readonly onNotice: (text: string) => void;
}

/**
 * A conversation line by line until the input ends. Ctrl-C (SIGINT) stops an answer; where none is being
 * given it ends the conversation.
 *
 * @returns the exit status: 0, or 130 when SIGINT ended it
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
  // a terminal in raw mode sends no signal
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

/** Writes one answer; an error of this turn leaves the conversation as it was. */
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
