import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { listOperations } from '../src/index.js';

const native = fileURLToPath(new URL('../native/', import.meta.url));
const read = (path: string): string => readFileSync(`${native}${path}`, 'utf8');

/** Converts `keyStart?` to `kKeyStart`. */
const formatConstant = (name: string): string =>
  `k${name[0]!.toUpperCase()}${name.slice(1).replace('?', '')}`;
/** Converts `layer_norm_forward` to `LayerNormForward`. */
const formatStruct = (name: string): string =>
  name.replace(/(^|_)(\w)/g, (_, _underscore, letter: string) => letter.toUpperCase());

/** Returns the native sources in a folder and below. */
const sourcesIn = (folder: string): string[] =>
  readdirSync(`${native}${folder}`, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(?:cc|cu|h|cuh)$/.test(path))
    .map((path) => `${folder}/${path}`);

const headers = sourcesIn('ops')
  .filter((path) => path.endsWith('.h'))
  .map(read)
  .join('\n');

/** Replaces `MTL_..._TENSORS(MTL_CONSTANT_OF)` by the constants that this macro lists. */
const withListed = (list: string): string =>
  list.replace(/(MTL_\w+)\(MTL_CONSTANT_OF\)/g, (_, macro: string) => {
    const [, uses = ''] = new RegExp(`^#define ${macro}\\(USE\\)((?:.*\\\\\n)*.*)$`, 'm').exec(headers) ?? [];
    return [...uses.matchAll(/USE\((k\w+),/g)].map(([, constant]) => `${constant},`).join(' ');
  });

/**
 * Returns the enumerators of an enumeration of a struct or its base; an empty list without such an
 * enumeration.
 */
function enumerators(struct: string, enumeration: string): string[] {
  const [, base, body = ''] =
    new RegExp(`^struct ${struct}(?: : (\\w+))? \\{\\n(.*?)^\\};`, 'ms').exec(headers) ?? [];
  if (base !== undefined && !body.includes(`enum ${enumeration} `)) return enumerators(base, enumeration);
  const list = new RegExp(`enum ${enumeration} \\{(.*?)\\}`, 's').exec(body)?.[1] ?? '';
  return withListed(list)
    .split(',')
    .flatMap((name) => name.trim() || []);
}

describe('names of operands', () => {
  it.each(listOperations().map((operation) => [operation.name, operation] as const))(
    'match the schema: %s',
    (name, { tensors, attributes }) => {
      expect(enumerators(formatStruct(name), 'Tensors')).toEqual(tensors.map(formatConstant));
      expect(enumerators(formatStruct(name), 'Attributes')).toEqual(attributes.map(formatConstant));
    },
  );

  it('are used in place of literal numbers', () => {
    const sources = ['ops', 'backends'].flatMap(sourcesIn);
    expect(sources.length).toBeGreaterThan(50);
    const literal =
      /call\.(?:tensor|has|data<[^()]*>|attribute|integer|flag)\(\d|\bexpect_\w+\(call, (?:\d|\w+, \d+\))/g;
    const found = sources.flatMap((path) =>
      [...read(path).matchAll(literal)].map(([text]) => `${path}: ${text}`),
    );
    expect(found).toEqual([]);
  });
});
