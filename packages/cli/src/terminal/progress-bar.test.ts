import { describe, expect, it } from 'vitest';
import { ProgressBar } from './progress-bar.js';

function terminal({ isTTY = true, columns = 60 } = {}) {
  const written: string[] = [];
  return { stream: { isTTY, columns, write: (text: string) => written.push(text) }, written };
}

describe('ProgressBar', () => {
  it('draws one line over itself, with the time that is left, and clears it', () => {
    const { stream, written } = terminal();
    let now = 0;
    const bar = new ProgressBar(stream, () => now);
    now = 1000;
    bar.update(0.25, '10 documents');
    expect(written).toEqual(['\r[======                  ]  25% 3 s left 10 documents\x1b[K']);
    now = 1050;
    bar.update(0.3, 'too soon');
    expect(written).toHaveLength(1);
    now = 2000;
    bar.update(2, 'x'.repeat(100));
    expect(written[1]!.length).toBe('\r'.length + 59 + '\x1b[K'.length);
    bar.close();
    bar.close();
    expect(written.slice(2)).toEqual(['\r\x1b[K']);
  });

  it('writes nothing without a terminal', () => {
    const { stream, written } = terminal({ isTTY: false });
    const bar = new ProgressBar(stream);
    bar.update(0.5, 'half');
    bar.close();
    expect(written).toEqual([]);
  });
});
