/** The theme of VitePress with system fonts, the colours of the viewer, and a front page. */
import DefaultTheme from 'vitepress/theme-without-fonts';
import { h } from 'vue';
import FrontPage from './FrontPage.vue';
import './style.css';

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'home-hero-before': () => h(FrontPage) }),
};
