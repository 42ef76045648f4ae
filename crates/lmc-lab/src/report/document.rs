//! A document that is written twice, as an HTML page and as Markdown with figures in files.

use super::figure::Figure;
use super::grid::{Grid, plain};
use super::page::Page;

/// A block of a document.
#[derive(Debug)]
pub enum Block {
    /// A section: its title, and a sentence that says how to read it.
    Section(String, String),
    /// A title within a section.
    Heading(String),
    /// A remark.
    Paragraph(String),
    /// A remark that must not be overlooked.
    Warning(String),
    /// A table.
    Grid(Grid),
    /// The legend of a table with differences.
    Legend(String),
    /// Wide figures, each with its caption and the name of its file.
    Charts(Vec<(String, Figure, String)>),
    /// Small figures in one file: caption, figures with their titles, name of the file.
    Figures(String, Vec<(String, Figure)>, String),
    /// A list of names, each with a remark.
    List(Vec<(String, String)>),
    /// Files that go with the document.
    Files(Vec<Attachment>),
    /// Commands to try.
    Commands(String),
}

/// A file that goes with a document.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// Name of the file.
    pub name: &'static str,
    /// Description of the content.
    pub about: &'static str,
    /// Content of the file.
    pub content: String,
}

/// A document.
#[derive(Debug)]
pub struct Document {
    /// Title of the document.
    pub title: String,
    /// A sentence beneath the title.
    pub about: String,
    /// The blocks, from top to bottom.
    pub blocks: Vec<Block>,
}

/// Folder of the figures beside the document.
pub const FIGURES: &str = "figures";

impl Document {
    /// Writes the document as a page with its figures inside.
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
                    let charts: Vec<(String, Figure)> =
                        charts.iter().map(|(caption, figure, _)| (caption.clone(), figure.clone())).collect();
                    page.charts(&charts);
                }
                Block::Figures(caption, figures, _) => {
                    if !caption.is_empty() {
                        page.heading(4, caption);
                    }
                    page.figures(figures);
                }
                Block::List(items) => page.list(items),
                Block::Files(files) => page.attachments(files),
                Block::Commands(text) => page.commands(text),
            }
        }
        page.html()
    }

    /// Writes the document as Markdown that links to the files of the figures.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n", plain(&self.title), plain(&self.about));
        let image = |caption: &str, file: &str| format!("\n![{}]({FIGURES}/{file}.svg)\n", plain(caption));
        for block in &self.blocks {
            text += &match block {
                Block::Section(title, about) => format!("\n## {}\n\n{}\n", plain(title), plain(about)),
                Block::Heading(title) => format!("\n### {}\n", plain(title)),
                Block::Paragraph(sentence) => format!("\n{}\n", plain(sentence)),
                Block::Legend(sentence) => {
                    format!("\n{} In brackets: our number less the paper's.\n", plain(sentence))
                }
                Block::Warning(sentence) => format!("\n> {}\n", plain(sentence)),
                Block::Grid(grid) => format!("\n{}", grid.markdown()),
                Block::Charts(charts) => {
                    charts.iter().map(|(caption, _, file)| image(caption, file)).collect()
                }
                Block::Figures(caption, _, file) if caption.is_empty() => image(file, file),
                Block::Figures(caption, _, file) => {
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

    /// All files that go with the document, except figures.
    pub fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.blocks.iter().flat_map(|block| match block {
            Block::Files(files) => files.as_slice(),
            _ => &[],
        })
    }

    /// Names and content of the files of the figures.
    pub fn figure_files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for block in &self.blocks {
            match block {
                Block::Charts(charts) => {
                    for (caption, figure, file) in charts {
                        files.push((file.clone(), Figure::file(&[(caption.clone(), figure.clone())])));
                    }
                }
                Block::Figures(_, figures, file) => files.push((file.clone(), Figure::file(figures))),
                _ => {}
            }
        }
        files
    }
}
