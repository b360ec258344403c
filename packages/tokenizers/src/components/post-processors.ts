import { isJsonObject } from '@mtl/errors/files';
import type { Component } from './component.js';

/** Stands for the tokens of the text. */
const theText = Symbol('text');
type Encoding = readonly (number | typeof theText)[];
/** Adds special tokens to an encoded text, or to the encodings that an earlier post-processor returned. */
type PostProcessor = (encodings: readonly Encoding[]) => readonly Encoding[];

/**
 * Returns the special tokens that a post-processor adds before a text, as in version 0.23 of the `tokenizers`
 * library; undefined if there are none.
 *
 * @throws DataError MTL_DATA_TOKENIZER for an unusable post-processor
 */
export function listStartIds(component: Component | undefined): readonly number[] | undefined {
  if (component === undefined) return undefined;
  const processed = makePostProcessor(component)([[theText]]).flat();
  const end = processed.indexOf(theText);
  const ids = processed.slice(0, Math.max(0, end)) as number[];
  return ids.length === 0 ? undefined : ids;
}

function makePostProcessor(component: Component): PostProcessor {
  switch (component.type) {
    case 'Sequence': {
      const processors = component.parts('processors').map(makePostProcessor);
      return (encodings) => processors.reduce((processed, process) => process(processed), encodings);
    }
    case 'ByteLevel':
      component.boolean('add_prefix_space', false);
      component.boolean('trim_offsets', true);
      component.boolean('use_regex', true);
      return (encodings) => encodings;
    case 'BertProcessing':
    case 'RobertaProcessing':
      return classification(component);
    case 'TemplateProcessing':
      return template(component);
    default:
      return component.refuse(
        'type',
        'BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing',
      );
  }
}

function classification(component: Component): PostProcessor {
  const start = namedId(component, 'cls');
  const end = namedId(component, 'sep');
  const isRoberta = component.type === 'RobertaProcessing';
  component.boolean('trim_offsets', true);
  component.boolean('add_prefix_space', true);
  return (encodings) =>
    encodings.map((encoding, i) => {
      if (i === 0) return [start, ...encoding, end];
      return isRoberta ? [end, ...encoding, end] : [...encoding, end];
    });
}

/** Returns the id in `field`, which must contain a token and its id. */
function namedId(component: Component, field: string): number {
  const value = component.value(field);
  if (Array.isArray(value) && value.length === 2 && typeof value[0] === 'string' && isId(value[1]))
    return value[1];
  return component.refuse(field, 'a token and its id');
}

const isId = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32;

function template(component: Component): PostProcessor {
  const tokens = templateTokens(component);
  const [single, pair] = ['single', 'pair'].map((field) =>
    field === 'pair' && !component.has(field) ? [] : component.list(field).map(readPiece(component, field)),
  ) as [Piece[], Piece[]];
  return (encodings) => {
    const field = encodings.length === 1 ? 'single' : 'pair';
    if (encodings.length > 2) component.refuse('type', 'one that comes before other templates');
    return (field === 'single' ? single : pair).map((piece) => {
      if ('sequence' in piece)
        return encodings[piece.sequence] ?? component.refuse(field, 'the sequence A alone');
      return tokens.get(piece.token) ?? component.refuse(field, `tokens that special_tokens has`);
    });
  };
}

type Piece = { readonly sequence: number } | { readonly token: string };

function readPiece(component: Component, field: string): (piece: unknown) => Piece {
  return (piece) => {
    const [[kind, settings] = [], ...others] = isJsonObject(piece) ? Object.entries(piece) : [];
    const { id } = isJsonObject(settings) ? settings : {};
    if (others.length === 0 && kind === 'SpecialToken' && typeof id === 'string') return { token: id };
    if (others.length === 0 && kind === 'Sequence' && (id === 'A' || id === 'B'))
      return { sequence: id === 'A' ? 0 : 1 };
    return component.refuse(field, '{"SpecialToken": {"id": ...}} and {"Sequence": {"id": "A" or "B"}}');
  };
}

function templateTokens(component: Component): Map<string, readonly number[]> {
  const field = 'special_tokens';
  const tokens = component.value(field);
  const expected = 'an object from names to {"id", "ids", "tokens"}';
  if (!isJsonObject(tokens)) return component.refuse(field, expected);
  return new Map(
    Object.entries(tokens).map(([name, token]) => {
      const { ids } = isJsonObject(token) ? token : {};
      return Array.isArray(ids) && ids.every(isId) ? [name, ids] : component.refuse(field, expected);
    }),
  );
}
