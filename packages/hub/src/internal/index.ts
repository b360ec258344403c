export { proxyNote, readProxies, requestSender, type SendRequest } from '../requests/proxies.js';
