import { ConfigurationError, nearestName } from '@mtl/errors';
import { describeValue } from '@mtl/errors/options';
import * as z from 'zod';
import { type FlagFacts, flagFacts, takesSeveral } from '../flags/flag-kinds.js';
import { type FlagName, findSchema } from './flag-schema.js';

/** An unchecked value of a flag, from a command line, a file or a program. */
export interface GivenValue {
  readonly name: string;
  /** The schema of the value. Default: the schema of the training flag with this name. */
  readonly schema?: z.ZodType;
  /** The value: strings on a command line, any YAML or JSON value in a file. */
  readonly value: unknown;
  /** The place of the value, worded for errors: `on the command line`, `in run.yaml`. */
  readonly where: string;
  /**
   * True for a value from a program, which must already have the flag's type: a string is not parsed as a
   * number. Default: false, because a command line contains only strings.
   */
  readonly isTyped?: boolean;
}

const numberPattern = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;

/**
 * Converts a given value to the flag's type. Returns undefined if the value means the same as omitting the
 * flag.
 *
 * @throws ConfigurationError `MTL_FLAG_VALUE`, whose message contains the expected values.
 */
export function readFlagValue(given: GivenValue): unknown {
  const { name, isTyped = false } = given;
  const value = isTyped ? spelled(given) : canonical(given, converted(given));
  if (value === undefined) return undefined;
  const result = schemaIn(given).safeParse(value);
  if (result.success) return result.data;
  const words = listWords(given);
  const own = factsIn(given).otherChoices ?? {};
  const known = words
    .map((word) => (typeof word === 'string' ? (own[word] ?? otherChoices[`${name} ${word}`]) : undefined))
    .find((text) => text !== undefined);
  const remedy = known ?? nearestChoice(given);
  const written = isTyped ? typedText(given.value) : words.map(String).join(' ');
  const isList = isTyped && takesSeveral(factsIn(given));
  throw new ConfigurationError('MTL_FLAG_VALUE', `--${name} ${written} ${given.where}`, {
    expected: `${isList ? 'an array: ' : ''}${expectedValue(given)}`,
    ...(remedy === undefined ? {} : { remedy }),
    details: { flag: name, value: isTyped ? written : given.value },
  });
}

const listWords = ({ value }: GivenValue): readonly unknown[] => (Array.isArray(value) ? value : [value]);

/** Returns the canonical form of a value from a program. Lists have only one form. */
const spelled = (given: GivenValue): unknown =>
  typeof given.value === 'object' ? given.value : canonical(given, given.value);

/** Formats a value from a program for errors. Strings are quoted, so that they do not look like numbers. */
function typedText(value: unknown): string {
  if (!Array.isArray(value) || value.length === 0 || value.length > 8) return describeValue(value);
  return `[${value.map(describeValue).join(', ')}]`;
}

const schemaIn = ({ name, schema }: GivenValue): z.ZodType => schema ?? findSchema(name as FlagName);
/**
 * The JSON Schemas of flags, from which the valid ranges are described. They are cached because making a JSON
 * Schema is slow.
 */
const jsonSchemas = new WeakMap<z.ZodType, JsonSchemaOfFlag>();

function jsonSchemaIn(given: GivenValue): JsonSchemaOfFlag {
  const schema = schemaIn(given);
  const known = jsonSchemas.get(schema) ?? (z.toJSONSchema(schema) as JsonSchemaOfFlag);
  jsonSchemas.set(schema, known);
  return known;
}

const factsIn = (given: GivenValue): FlagFacts => flagFacts.get(schemaIn(given))!;

/** Returns a description of a flag's valid values, derived from its schema. */
function expectedValue(given: GivenValue): string {
  const { kind, placeholder, expected } = factsIn(given);
  if (expected !== undefined) return expected;
  const schema = jsonSchemaIn(given);
  if (schema.enum !== undefined) return schema.enum.join(', ');
  if (kind === 'choices') return `one or more of ${schema.items?.enum?.join(', ')}`;
  if (kind === 'numbers') return 'one number of 0 or more, or several';
  if (kind === 'boolean') return 'true or false';
  if (kind === 'text') return schema.pattern === undefined ? 'a text' : placeholder;
  if (kind === 'texts') return 'one text or more';
  if (kind === 'integers') {
    const count = schema.maxItems === undefined ? 'one or more' : String(schema.minItems);
    return `${count} whole numbers of 1 or more: ${placeholder}`;
  }
  const noun = kind === 'integer' ? 'a whole number' : 'a number';
  const lower = schema.exclusiveMinimum !== undefined ? ` above ${schema.exclusiveMinimum}` : '';
  const least = schema.minimum !== undefined ? ` of ${schema.minimum} or more` : '';
  const isBounded = schema.maximum !== undefined && schema.maximum < Number.MAX_SAFE_INTEGER;
  const most = isBounded ? `, at most ${schema.maximum}` : '';
  const upper = schema.exclusiveMaximum !== undefined ? `, below ${schema.exclusiveMaximum}` : most;
  return `${noun}${lower}${least}${upper}`;
}

interface JsonSchemaOfFlag {
  readonly pattern?: string;
  readonly enum?: readonly string[];
  readonly items?: { readonly enum?: readonly string[] };
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
}

/**
 * Converts strings to numbers and switches. For values from files, also converts a number to a string, or a
 * single value to a list, if the schema requires a string or a list.
 */
function converted(given: GivenValue): unknown {
  const { value } = given;
  switch (factsIn(given).kind) {
    case 'integer':
    case 'number':
      return toNumber(value);
    case 'boolean':
      return value === 'true' ? true : value === 'false' ? false : value;
    case 'text':
    case 'choice':
      return toText(value);
    case 'texts':
    case 'choices':
      return (Array.isArray(value) ? value : [value]).map(toText);
    case 'integers':
    case 'numbers':
      return (Array.isArray(value) ? value : [value]).map(toNumber);
  }
}

function canonical(given: GivenValue, value: unknown): unknown {
  const { canonical: spelled } = factsIn(given);
  return spelled === undefined ? value : spelled(value);
}

function toNumber(value: unknown): unknown {
  return typeof value === 'string' && numberPattern.test(value) ? Number(value) : value;
}

function toText(value: unknown): unknown {
  return typeof value === 'number' ? String(value) : value;
}

function nearestChoice(given: GivenValue): string | undefined {
  const { name } = given;
  const schema = jsonSchemaIn(given);
  const names = schema.enum ?? schema.items?.enum;
  if (names === undefined) return undefined;
  const words = listWords(given);
  const wrong = words.find((word) => typeof word === 'string' && !names.includes(word)) as string | undefined;
  const near = wrong === undefined ? undefined : nearestName(wrong, names);
  if (near === undefined) return undefined;
  return `write --${name} ${words.map((word) => String(word === wrong ? near : word)).join(' ')}`;
}

const asTokenizerJson =
  'save it as tokenizer.json with the Hugging Face library, and use --tokenizer-type HuggingFaceTokenizer --tokenizer-model tokenizer.json';

const asMuonOrAdam = 'there are AdamW and Muon: use --optimizer adam or --optimizer muon';
const asKnownCoefficients =
  "leave it out for quintic, Megatron-LM's default too: only the coefficients of these two are known here";

const asBalanced =
  'use seq_aux_loss, or none with --moe-router-enable-expert-bias: balancing must not depend on which tokens a rank has';

/** Values that other programs accept but this project does not, and a replacement for each. */
const otherChoices: Readonly<Record<string, string>> = {
  'device gpu': 'write --device cuda',
  'optimizer sgd': asMuonOrAdam,
  'optimizer lion': asMuonOrAdam,
  'optimizer soap': asMuonOrAdam,
  'optimizer adaptive_muon': asMuonOrAdam,
  'muon-coefficient-type polar_express': asKnownCoefficients,
  'muon-coefficient-type cans': asKnownCoefficients,
  'muon-coefficient-type aol': asKnownCoefficients,
  'muon-coefficient-type deepseekv4': asKnownCoefficients,
  'muon-coefficient-type cubic5': asKnownCoefficients,
  'moe-router-load-balancing-type sinkhorn': asBalanced,
  'moe-router-load-balancing-type quantile_balancing': asBalanced,
  'tokenizer-type SentencePieceTokenizer': asTokenizerJson,
  'tokenizer-type GPTSentencePieceTokenizer': asTokenizerJson,
  'tokenizer-type Llama2Tokenizer': asTokenizerJson,
  'tokenizer-type TikTokenizer': asTokenizerJson,
  'tokenizer-type SFTTokenizer': asTokenizerJson,
  'tokenizer-type MultimodalTokenizer': 'use the tokenizer of the text alone',
  'tokenizer-type NullMultimodalTokenizer': 'use --tokenizer-type NullTokenizer',
};
