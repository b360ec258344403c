import { isJsonObject } from '@mtl/errors/files';
import { type Metadata, text } from '../metadata.js';
import { bytePairMetadata } from './byte-pair-metadata.js';
import { readObject, readTemplate, type TokenizerFiles, tokenizerRefused } from './tokenizer-files.js';

/** The metadata that describe a tokenizer in a GGUF file, and notices for the user. */
interface DescribedTokenizer {
  readonly metadata: Metadata;
  readonly notices: readonly string[];
}

/**
 * Returns the metadata for a model's tokenizer.
 *
 * @param options.files tokenizer.json and the tokenizer's other files, as for `writeHuggingFaceGpt`; must not
 * be empty
 * @param options.endTokens token ids: the first ends a text, the second ends a turn of a conversation
 * @throws CheckpointError MTL_GGUF_TOKENIZER for a tokenizer that llama.cpp does not support
 */
export function tokenizerMetadata({
  files,
  vocabularySize,
  endTokens,
}: {
  readonly files: TokenizerFiles;
  readonly vocabularySize: number;
  readonly endTokens: readonly number[];
}): DescribedTokenizer {
  const json = readObject(files, 'tokenizer.json');
  if (Object.keys(files).length === 0) {
    throw tokenizerRefused(
      'the model has no tokenizer, and llama.cpp ends programs that load it without one',
      'a model with byte-level BPE or bytes',
      'train with a tokenizer, or write the model with --save-hf DIR',
    );
  }
  if (!isJsonObject(json?.model) || !isJsonObject(json.model.vocab)) {
    throw tokenizerRefused(
      json === undefined ? 'the tokenizer has no tokenizer.json' : 'tokenizer.json has no vocabulary of BPE',
      'a tokenizer.json with byte-level BPE',
      'save the tokenizer with AutoTokenizer of the transformers library (save_pretrained)',
    );
  }
  const settings = readObject(files, 'tokenizer_config.json') ?? {};
  const { metadata, notices } = bytePairMetadata({ json, settings, vocabularySize, endTokens });
  const template = readTemplate(files);
  return {
    metadata: {
      ...metadata,
      ...(template === undefined ? {} : { 'tokenizer.chat_template': text(template) }),
    },
    notices,
  };
}
