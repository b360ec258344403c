import type { StageBatch } from '@mtl/models';
import { createTokenizer, type Tokenizer } from '@mtl/tokenizers';
import { describe, expect, it } from 'vitest';
import { samplePrompt } from './sample-prompts.js';

const tokenizer = await createTokenizer({ type: 'ByteLevelTokenizer' });
/** Returns the prompt from the sample `text`, in which `|` is the end of a document. */
function findPrompt(text: string, made: Tokenizer = tokenizer): string | undefined {
  const bytes = Buffer.from(text, 'utf8');
  const tokens = Int32Array.from(bytes, (byte) => (byte === 0x7c ? made.eod : byte));
  const dataset = { sample: () => ({ tokens }) as unknown as StageBatch };
  const prompt = samplePrompt({ dataset, tokenizer: made });
  return prompt === undefined ? undefined : made.decode(prompt);
}

describe('samplePrompt', () => {
  it('is the start of a document', () => {
    expect(findPrompt('its last words.|def main(argv): return 0 # and so on')).toBe('def main(argv): ');
  });

  it('passes over documents without text', () => {
    expect(findPrompt('x|||def main(argv): return 0')).toBe('def main(argv)');
  });

  it('is the start of the sample where no document starts in it, or too late', () => {
    expect(findPrompt('0123456789abcdefghijklmnopqrstuvwxyz')).toBe('0123456789abcdef');
    expect(findPrompt('0123456789abcdefghijklmnopqrst|uvwxyz')).toBe('0123456789abcdef');
  });

  it('is the start of a line or else of a sentence where no document starts in the sample', () => {
    expect(findPrompt('the end of it.\n\nWe the People of the United States, in Order')).toBe(
      'We the People of',
    );
    expect(findPrompt('3.5 or. less. We the People of the United States, in Order')).toBe('We the People of');
  });

  it('ends with its document, and takes half of a short sample', () => {
    expect(findPrompt('x|one|two and more words of a text')).toBe('one');
    expect(findPrompt('12345678')).toBe('1234');
  });

  it('has no part of a character', () => {
    // an emoji has 4 bytes, an ideograph 3
    expect(findPrompt('x|漢字かな交じり文とテスト')).toBe('漢字かな交');
    expect(findPrompt(`x|a${'😀'.repeat(9)}`)).toBe('a😀😀😀');
    const cut = Buffer.from('漢字かな交じり文とテスト').subarray(1);
    const tokens = Int32Array.from(cut);
    const dataset = { sample: () => ({ tokens }) as unknown as StageBatch };
    expect(tokenizer.decode(samplePrompt({ dataset, tokenizer })!)).toBe('字かな交');
  });

  it('is nothing without data', () => {
    expect(samplePrompt({ dataset: undefined, tokenizer })).toBeUndefined();
    expect(findPrompt('||')).toBeUndefined();
  });
});
