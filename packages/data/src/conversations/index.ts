export { chatTokens } from './chat-tokens.js';
export { ConversationDataset } from './conversation-dataset.js';
export { type ConversationCounts, longConversationRules } from './encode-conversations.js';
export { type EndOfTurn, endOfTurn } from './end-of-turn.js';
export { findChatTemplate, readChatTemplate } from './find-chat-template.js';
export {
  type ConversationDatasets,
  type ConversationFiles,
  type ConversationSplit,
  conversationDatasets,
} from './pack-conversation-files.js';
export { readConversations } from './read-conversations.js';
