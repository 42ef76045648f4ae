//! A document that is written twice, as a page and as Markdown, with its pictures as files.

use super::grid::{Grid, plain};
use super::page::Page;
use super::picture::Picture;

/// A piece of a document.
#[derive(Debug)]
pub enum Block {
    /// A title, and a sentence that says how to read what follows.
    Section(String, String),
    /// A title below that of a section.
    Heading(String),
    /// A sentence.
    Paragraph(String),
    /// A sentence that must not be overlooked.
    Warning(String),
    /// A table.
    Grid(Grid),
    /// How to read a table with differences.
    Legend(String),
    /// Wide pictures, each with its caption and the name of its file.
    Charts(Vec<(String, Picture, String)>),
    /// Small pictures in one file: caption, pictures with their titles, name of the file.
    Pictures(String, Vec<(String, Picture)>, String),
    /// Names, and something about each.
    List(Vec<(String, String)>),
    /// Files beside the document.
    Files(Vec<Attachment>),
    /// Commands to try.
    Commands(String),
}

/// A file that goes with a document.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// Its name.
    pub name: &'static str,
    /// What it holds, for people.
    pub about: &'static str,
    /// What it holds.
    pub content: String,
}

/// The document.
#[derive(Debug)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// A sentence beneath the title.
    pub about: String,
    /// What is in it.
    pub blocks: Vec<Block>,
}

/// Where the pictures are.
pub const FIGURES: &str = "figures";

impl Document {
    /// As a page with its pictures inside.
    pub fn html(&self) -> String {
        let mut page = Page::broad(&self.title, &self.about);
        for block in &self.blocks {
            match block {
                Block::Section(title, about) => page.section(title, about),
                Block::Heading(title) => page.heading(3, title),
                Block::Paragraph(text) => page.paragraph(text),
                Block::Warning(text) => page.warning(text),
                Block::Grid(grid) => page.grid(grid),
                Block::Legend(text) => page.legend(text),
                Block::Charts(charts) => {
                    let charts: Vec<(String, Picture)> = charts
                        .iter()
                        .map(|(caption, picture, _)| (caption.clone(), picture.clone()))
                        .collect();
                    page.charts(&charts);
                }
                Block::Pictures(caption, pictures, _) => {
                    if !caption.is_empty() {
                        page.heading(4, caption);
                    }
                    page.pictures(pictures);
                }
                Block::List(items) => page.list(items),
                Block::Files(files) => page.attachments(files),
                Block::Commands(text) => page.commands(text),
            }
        }
        page.html()
    }

    /// As Markdown that shows the files of the pictures.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n", plain(&self.title), plain(&self.about));
        let image = |caption: &str, file: &str| format!("\n![{}]({FIGURES}/{file}.svg)\n", plain(caption));
        for block in &self.blocks {
            text += &match block {
                Block::Section(title, about) => format!("\n## {}\n\n{}\n", plain(title), plain(about)),
                Block::Heading(title) => format!("\n### {}\n", plain(title)),
                Block::Paragraph(sentence) => format!("\n{}\n", plain(sentence)),
                Block::Legend(sentence) => {
                    format!("\n{} In brackets: ours less the paper's.\n", plain(sentence))
                }
                Block::Warning(sentence) => format!("\n> {}\n", plain(sentence)),
                Block::Grid(grid) => format!("\n{}", grid.markdown()),
                Block::Charts(charts) => {
                    charts.iter().map(|(caption, _, file)| image(caption, file)).collect()
                }
                Block::Pictures(caption, _, file) if caption.is_empty() => image(file, file),
                Block::Pictures(caption, _, file) => {
                    format!("\n#### {}\n{}", plain(caption), image(caption, file))
                }
                Block::List(items) => {
                    let item = |(name, about): &(String, String)| {
                        format!("- `{}` {}\n", name.replace('`', "'"), plain(about))
                    };
                    format!("\n{}", items.iter().map(item).collect::<String>())
                }
                Block::Files(files) => {
                    let item = |Attachment { name, about, .. }: &Attachment| {
                        format!("- [{name}]({name}) {}\n", plain(about))
                    };
                    format!("\n{}", files.iter().map(item).collect::<String>())
                }
                Block::Commands(commands) => format!("\n```sh\n{}\n```\n", commands.trim_end()),
            };
        }
        text
    }

    /// The files that go with it.
    pub fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.blocks.iter().flat_map(|block| match block {
            Block::Files(files) => files.as_slice(),
            _ => &[],
        })
    }

    /// Names and content of the files of the pictures.
    pub fn figures(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for block in &self.blocks {
            match block {
                Block::Charts(charts) => {
                    for (caption, picture, file) in charts {
                        files.push((file.clone(), Picture::file(&[(caption.clone(), picture.clone())])));
                    }
                }
                Block::Pictures(_, pictures, file) => files.push((file.clone(), Picture::file(pictures))),
                _ => {}
            }
        }
        files
    }
}
