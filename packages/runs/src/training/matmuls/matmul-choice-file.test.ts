import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MatmulChoiceFile } from './matmul-choice-file.js';
import type { MatmulPlatform } from './matmul-platform.js';

const gpu: MatmulPlatform['properties'] = {
  GPU: 'NVIDIA H100 80GB HBM3',
  driver: 'CUDA 13.0, 580.65.06',
  cuBLASLt: '13.1.0',
  'compute capability': '9.0',
  multiprocessors: 132,
};
const platform: MatmulPlatform = { device: 'cuda', properties: gpu };
let cache: string;
beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), 'mtl-matmul-choices-'));
});
afterEach(() => rmSync(cache, { recursive: true }));

const makeChoiceFile = (more: MatmulPlatform['properties'] = {}): MatmulChoiceFile =>
  new MatmulChoiceFile(
    { ...platform, properties: { ...gpu, ...more } },
    { variables: { XDG_CACHE_HOME: cache } },
  );
const choices = { '1,2,3': 'aa', '4,5,6': 'bb' };

describe('the file of choices of matmuls', () => {
  it("is in the user's cache directory and named after the platform", () => {
    expect(makeChoiceFile().path).toMatch(
      new RegExp(
        `^${cache}/mtl/matmuls/NVIDIA-H100-80GB-HBM3-CUDA-13.0-580.65.06-13.1.0-9.0-132-[0-9a-f]{8}.jsonl$`,
      ),
    );
    for (const XDG_CACHE_HOME of [undefined, '']) {
      const { path } = new MatmulChoiceFile(platform, { variables: { XDG_CACHE_HOME } });
      expect(path.startsWith(join(homedir(), '.cache/mtl/matmuls/'))).toBe(true);
    }
    const others: MatmulPlatform['properties'][] = [
      { GPU: 'NVIDIA H200' },
      { driver: 'CUDA 13.0, 580.82.07' },
      { cuBLASLt: '13.2.0' },
      { multiprocessors: 114 },
    ];
    expect(new Set([{}, ...others].map((more) => makeChoiceFile(more).path)).size).toBe(5);
  });

  it('has what was added, for every later run', () => {
    expect(makeChoiceFile().read()).toEqual({});
    expect(makeChoiceFile().add({})).toEqual({});
    expect(makeChoiceFile().add(choices)).toEqual(choices);
    expect(makeChoiceFile().read()).toEqual(choices);
    expect(makeChoiceFile({ cuBLASLt: '13.2.0' }).read()).toEqual({});
  });

  it('keeps the first choice for a problem, and tells it to who has made another', () => {
    makeChoiceFile().add({ '1,2,3': 'aa' });
    expect(makeChoiceFile().add({ '1,2,3': 'other', '4,5,6': 'bb' })).toEqual(choices);
    // a second process adds a choice after this process has seen that no file exists
    const path = makeChoiceFile({ GPU: 'another' }).path;
    makeChoiceFile({ GPU: 'another' }).add({ '1,2,3': 'later' });
    const later = readFileSync(path, 'utf8');
    rmSync(path);
    makeChoiceFile({ GPU: 'another' }).add({ '1,2,3': 'aa' });
    appendFileSync(path, later);
    expect(makeChoiceFile({ GPU: 'another' }).read()).toEqual({ '1,2,3': 'aa' });
  });

  const damages: [string, (text: string) => string, string][] = [
    ['another algorithm', (text) => text.replace('"bb"', '"bc"'), 'line 2'],
    ['another problem', (text) => text.replace('1,2,3', '1,2,4'), 'line 1'],
    ['no JSON', (text) => `${text}{\n`, 'line 3'],
    ['a line without a check', (text) => `${text}{"problem":"7","algorithm":"cc"}\n`, 'line 3'],
    ['an empty line', (text) => `\n${text}`, 'line 1'],
    ['a torn last line', (text) => text.slice(0, -1), 'line 2 ends early'],
    ['a torn last line, shorter', (text) => text.slice(0, -9), 'line 2 ends early'],
  ];
  it.each(damages)('is refused with %s', (_, damage, expected) => {
    makeChoiceFile().add(choices);
    const { path } = makeChoiceFile();
    writeFileSync(path, damage(readFileSync(path, 'utf8')));
    const refused = expect.objectContaining({
      code: 'MTL_MATMUL_CHOICES',
      exitCode: 2,
      message: expect.stringContaining(expected),
      remedy: expect.stringContaining(`rm ${path}`),
    });
    expect(() => makeChoiceFile().read()).toThrow(refused);
    expect(() => makeChoiceFile().add({ '7,8,9': 'cc' })).toThrow(refused);
  });

  it('of another platform is refused, also under the name of this one', () => {
    makeChoiceFile({ GPU: 'NVIDIA H200' }).add(choices);
    const text = readFileSync(makeChoiceFile({ GPU: 'NVIDIA H200' }).path, 'utf8');
    makeChoiceFile().add(choices);
    writeFileSync(makeChoiceFile().path, text);
    expect(() => makeChoiceFile().read()).toThrow(/line 1 is damaged, or of another platform/);
  });

  it('that cannot be written is an error, unless there is nothing to write', () => {
    writeFileSync(join(cache, 'file'), '');
    const variables = { XDG_CACHE_HOME: join(cache, 'file', 'below') };
    const file = new MatmulChoiceFile(platform, { variables });
    const refused = expect.objectContaining({ code: 'MTL_MATMUL_CHOICES', exitCode: 2 });
    expect(() => file.add(choices)).toThrow(refused);
  });
});
