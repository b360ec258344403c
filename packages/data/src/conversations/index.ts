export { ChatTemplate, type ChatTemplateOptions } from './chat-template.js';
export { chatTokens } from './chat-tokens.js';
export { type ChatMessage, contentForPeople } from './conversation.js';
export {
  ConversationDataset,
  type ConversationDatasetDescription,
  type PackedConversations,
} from './conversation-dataset.js';
export {
  type ConversationDatasets,
  type ConversationDatasetsOptions,
  type ConversationFiles,
  type ConversationPart,
  conversationDatasets,
} from './conversation-datasets.js';
export {
  type ConversationCounts,
  type LongConversationRule,
  longConversationRules,
} from './encode-conversations.js';
export { type EndOfTurn, endOfTurn } from './end-of-turn.js';
export { findChatTemplate } from './find-chat-template.js';
export { readChatTemplate } from './read-chat-template.js';
export { readConversations } from './read-conversations.js';
