import { ConfigurationError, formatError } from '@mtl/errors';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { FinalError } from './rank-output.js';

afterEach(() => vi.useRealTimers());

function listen(): { readonly words: FinalError; readonly shown: () => string } {
  const chunks: Buffer[] = [];
  const words = new FinalError((lines) => void chunks.push(lines));
  return { words, shown: () => Buffer.concat(chunks).toString('latin1') };
}

const error = 'error[MTL_FLAG]: no flag --x; expected --y\n  remedy: --help\n';

describe('FinalError', () => {
  it('holds back the error at the end, in whatever chunks it comes', () => {
    for (const size of [1, 7, 1000]) {
      const { words, shown } = listen();
      const text = Buffer.from(`a line\n${error.trimEnd()}`);
      for (let at = 0; at < text.length; at += size) words.push(text.subarray(at, at + size));
      words.end();
      expect(shown()).toBe('a line\n');
      expect(words.error).toBe(error.trimEnd());
      expect(words.lastMessage).toBe('error[MTL_FLAG]: no flag --x; expected --y');
    }
  });

  it.each(['another line\n', 'Error: x\n    at a stack\n'])('shows an error that %j follows', (after) => {
    const { words, shown } = listen();
    words.push(Buffer.from(error + after));
    words.end();
    expect(shown()).toBe(error + after);
    expect(words.error).toBe('');
    expect(words.lastMessage).toBe('error[MTL_FLAG]: no flag --x; expected --y');
  });

  it('holds the stack that --debug prints after an error', () => {
    const { words, shown } = listen();
    const failure = new ConfigurationError('MTL_FLAG', 'no flag --x', { expected: '--y', remedy: '--help' });
    const text = formatError(failure, { debug: true });
    expect(text).toContain('\nConfigurationError: no flag --x\n    at ');
    words.push(Buffer.from(`a line\n${text}\n`));
    words.end();
    expect(shown()).toBe('a line\n');
    expect(words.error).toBe(text);
    expect(words.lastMessage).toBe('error[MTL_FLAG]: no flag --x; expected --y');
  });

  it('holds the last of two errors', () => {
    const { words, shown } = listen();
    words.push(Buffer.from(`error[MTL_FIRST]: a\n${error}`));
    words.end();
    expect(shown()).toBe('error[MTL_FIRST]: a\n');
    expect(words.error).toBe(error.trimEnd());
  });

  it('shows the error of a process that does not end', () => {
    vi.useFakeTimers();
    const { words, shown } = listen();
    words.push(Buffer.from(error));
    expect(shown()).toBe('');
    vi.runAllTimers();
    expect(shown()).toBe(error);
    expect(words.error).toBe('');
  });

  it('shows bytes as they came, and reads UTF-8', () => {
    const { words, shown } = listen();
    words.push(Buffer.from([0xff, 0x0a]));
    words.push(Buffer.from('error[MTL_PATH]: größe\n'));
    words.end();
    expect(shown()).toBe('\xff\n');
    expect(words.error).toBe('error[MTL_PATH]: größe');
  });
});
